"""Bringing an index up to date, the same way everywhere: the files first, then the vectors."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytools_hybrid.errors import RootUnreadableError
from pytools_hybrid.index.sync import SYNC_ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolindex import Coverage, SyncReport

    from pytools_hybrid.index.embed import VectorWork
    from pytools_hybrid.index.sync import TreeSync


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp:
    """The result of bringing an index up to date, with what failed.

    Attributes:
        report: What changed with the files; None if they were not scanned, or could not be.
        embedded: How many texts were embedded.
        files_error: Why the index does not match all files, or None.
        vectors_error: Why some tools have no vectors, or None.
    """

    report: SyncReport | None = None
    embedded: int = 0
    files_error: Exception | None = None
    vectors_error: Exception | None = None

    @property
    def error(self) -> Exception | None:
        """The first error, or None."""
        return self.files_error or self.vectors_error

    @property
    def is_news(self) -> bool:
        """Whether the index has changed."""
        report = self.report
        changed = report is not None and (report.added or report.updated or report.removed)
        return bool(changed or self.embedded)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexState:
    """The content of an index at one moment.

    Attributes:
        generation: The number of the state, which increases with every change.
        coverage: How many tools there are, and how many have vectors of the model.
    """

    generation: int
    coverage: Coverage


async def catch_up(
    sync: TreeSync | None,
    vectors: VectorWork | None,
    *,
    patience: float | None = None,
    trusts_stamps: bool = True,
    at_once: bool = False,
    progress: Callable[[str, int, int | None], object] | None = None,
) -> CatchUp:
    """Scan the files, then embed new texts; failures are returned, not raised.

    Args:
        sync: Scans the files; None skips that.
        vectors: Embeds the texts; None skips that.
        patience: How many seconds to wait for the next vector of a slow model; None for no limit.
        trusts_stamps: Whether to skip files with unchanged size and times.
        at_once: As for `VectorWork.embed`.
        progress: Called from any thread with the current step, how much of it is done, and the
            total if that is known.
    """
    report, files_error = None, None
    if sync is not None:
        report, files_error = await _look_at_files(sync, trusts_stamps, progress)
    embedded, vectors_error = 0, None
    if vectors is not None:
        embedded, vectors_error = await _embed(vectors, patience, at_once, progress)
    return CatchUp(
        report=report, embedded=embedded, files_error=files_error, vectors_error=vectors_error
    )


async def _look_at_files(
    sync: TreeSync,
    trusts_stamps: bool,
    progress: Callable[[str, int, int | None], object] | None,
) -> tuple[SyncReport | None, Exception | None]:
    def note(looked_at: int) -> None:
        if progress is not None:
            progress("scanning the files", looked_at, None)

    try:
        return await sync.refresh(trusts_stamps=trusts_stamps, progress=note), None
    except RootUnreadableError as error:
        # The other roots are up to date.
        return error.report, error
    except SYNC_ERRORS as error:
        return None, error


async def _embed(
    vectors: VectorWork,
    patience: float | None,
    at_once: bool,
    progress: Callable[[str, int, int | None], object] | None,
) -> tuple[int, Exception | None]:
    loop = asyncio.get_running_loop()
    embedded = 0
    limit = asyncio.timeout(patience)

    def note(done: int, total: int) -> None:
        nonlocal embedded
        embedded = done
        if progress is not None:
            progress("embedding", done, total)
        if patience is not None:
            limit.reschedule(loop.time() + patience)

    try:
        async with limit:
            return await vectors.embed(note, at_once=at_once), None
    except Exception as error:  # noqa: BLE001 - a model may fail with anything
        return embedded, None if limit.expired() else error


async def stop(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it has ended, even if the caller is cancelled."""
    task.cancel()
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
