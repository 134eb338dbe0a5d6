"""Running checks one after the other, even if some hang or crash."""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING

from pytools_hybrid.errors import innermost
from pytools_hybrid.reports.doctor._finding import Check, Finding, Status, Verdict, failed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def diagnose(checks: Iterable[Check]) -> Iterator[Finding]:
    """Run checks one after the other, so that none disturbs another's measurements.

    Yields:
        The finding of each check when it ends. A check that takes too long is left running in its
        thread, which does not prevent the process from exiting.
    """
    for check in checks:
        started = time.perf_counter()
        verdict = _verdict(check)
        seconds = time.perf_counter() - started
        is_overdue = verdict is None
        if verdict is None:
            verdict = failed(f"no answer within {check.seconds:g} s")
        yield Finding(
            check=check.name,
            status=verdict.status,
            message=verdict.message,
            remedy=verdict.remedy,
            seconds=seconds,
            is_overdue=is_overdue,
        )


def _verdict(check: Check) -> Verdict | None:
    """Return a check's result, or None if it times out."""
    answer: queue.SimpleQueue[Verdict] = queue.SimpleQueue()

    def look() -> None:
        try:
            answer.put(check.look())
        except BaseException as error:  # noqa: BLE001 - the others go on
            answer.put(Verdict(Status.FAILED, _in_words(error)))

    threading.Thread(target=look, name=f"check {check.name}", daemon=True).start()
    try:
        return answer.get(timeout=check.seconds)
    except queue.Empty:
        return None


def _in_words(error: BaseException) -> str:
    # The message of an exception group does not say what went wrong; its first error does.
    error = innermost(error)
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
