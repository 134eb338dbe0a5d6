"""Running an enrichment: each answer is saved before the next request is sent."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolrank.rerank import ModelUsage

from pytools_hybrid.jobs.enrich._asking import Asker, NoAnswerError
from pytools_hybrid.jobs.enrich._document import CapabilityFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytools_hybrid.jobs.enrich._plan import EnrichmentPlan, Request

_AT_ONCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class EnrichmentReport:
    """The outcome of an enrichment.

    Attributes:
        missing: Ids of tools for which there was no answer.
        reasons: Why there was none, each reason once.
    """

    written: int
    files: tuple[Path, ...]
    missing: tuple[str, ...]
    reasons: tuple[str, ...]
    spent: ModelUsage


async def enrich(
    plan: EnrichmentPlan, asker: Asker, *, progress: Callable[[int, int], None]
) -> EnrichmentReport:
    """Send the planned requests, and save each answer as it arrives.

    If a request fails, its tools are left for a later run, and the other requests are sent. If the
    first ones all fail, the rest is not sent.

    Raises:
        CapabilitiesError: A file cannot be written, which is checked before the first request, or
            it became invalid in the meantime.
    """
    for root in dict.fromkeys(request.root for request in plan.requests):
        ids = (each.id for it in plan.requests if it.root == root for each in it.subjects)
        CapabilityFile(root).check(ids)
    work = _Work(plan, asker, progress)
    try:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(_AT_ONCE, len(plan.requests))):
                tasks.create_task(work.ask_on())
    except* Exception as errors:  # noqa: BLE001
        # All later requests would fail for the same reason.
        raise errors.exceptions[0] from None
    return work.report()


class _Work:
    """The remaining requests, and the results of those that were sent."""

    def __init__(
        self, plan: EnrichmentPlan, asker: Asker, progress: Callable[[int, int], None]
    ) -> None:
        self._asker = asker
        self._progress = progress
        self._total = len(plan.ids)
        self._left = list(reversed(plan.requests))
        self._written: dict[str, None] = {}
        self._files: dict[Path, None] = {}
        self._missing: list[str] = []
        self._reasons: dict[str, None] = {}
        self._spent = ModelUsage()
        self._failures = 0

    async def ask_on(self) -> None:
        """Send one request after another until none is left."""
        while self._left:
            request = self._left.pop()
            try:
                answer = await self._asker.ask(request.subjects)
            except NoAnswerError as error:
                self._spent += error.spent
                self._failures += 1
                self._miss(request, set(), error.reason)
                if self._failures >= _AT_ONCE and not self._written:
                    self._give_up()
            else:
                self._spent += answer.spent
                if answer.made:
                    file = CapabilityFile(request.root)
                    file.add(answer.made)
                    self._files[file.path] = None
                    self._written |= dict.fromkeys(answer.made)
                self._miss(request, set(answer.made), "the model gave no answer for some tools")
            self._progress(len(self._written) + len(self._missing), self._total)

    def report(self) -> EnrichmentReport:
        """Return the report so far."""
        return EnrichmentReport(
            written=len(self._written),
            files=tuple(self._files),
            missing=tuple(self._missing),
            reasons=tuple(self._reasons),
            spent=self._spent,
        )

    def _miss(self, request: Request, made: set[str], reason: str) -> None:
        missing = [each.id for each in request.subjects if each.id not in made]
        if missing:
            self._missing += missing
            self._reasons[reason] = None

    def _give_up(self) -> None:
        for request in self._left:
            self._missing += [subject.id for subject in request.subjects]
        self._left.clear()
