"""Keeping a store up to date with its trees: one scan at a time, and rebuilding a damaged store."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from operator import attrgetter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypeVar

from toolindex import DamagedDatabaseError, ToolIndexError, finish_in_thread

from pytools_hybrid.errors import RootEmptiedError, RootUnreadableError
from pytools_hybrid.index._aliases import Annotator
from pytools_hybrid.index._broken import broken_tool, suspects
from pytools_hybrid.index._scan import refresh
from pytools_hybrid.index._sqlite_file import damage_note
from pytools_hybrid.telemetry import SYNCS, observe

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable

    from toolindex import StoredFiles, SyncReport, ToolStore
    from toolscan import ScanIssue

    from pytools_hybrid.index._broken import BrokenTool
    from pytools_hybrid.index._scan import Filling
    from pytools_hybrid.settings import Roots

T = TypeVar("T")

_log = logging.getLogger("pytools_hybrid")

SYNC_ERRORS = (ToolIndexError, RootUnreadableError, RootEmptiedError, OSError)
"""Errors of a refresh that may be temporary."""

_LEASE_SECONDS = 30.0
_REBUILD_SECONDS = 10.0
_OTHERS_SECONDS = 2.0
_REBUILD_PAUSE = 30.0


class TreeSync:
    """Brings a store up to date with trees of files.

    Args:
        completes: Whether to fill a store that is incomplete.

    Attributes:
        changed: Set whenever the store was brought up to date.
        failure: Why the last refresh failed, or None.
        report: The result of the last refresh; None before the first.
        left_out: All files that were left out, as far as refreshes have looked at them.
        synced_at: When the last refresh ended, in seconds since 1970.
        broken: The broken files that were tools or were meant to be, by path.
        filling: The progress of filling an incomplete store; otherwise None.
    """

    def __init__(
        self,
        store: ToolStore,
        roots: Roots,
        *,
        completes: bool,
        outside_links: bool = False,
    ) -> None:
        self.changed: asyncio.Event = asyncio.Event()
        self.failure: str | None = None
        self.report: SyncReport | None = None
        self.left_out: tuple[ScanIssue, ...] = ()
        self.synced_at: float | None = None
        self.broken: dict[str, BrokenTool] = {}
        self.filling: Filling | None = None
        self._store = store
        self._roots = roots
        self._completes = completes
        self._outside_links = outside_links
        self._annotator = Annotator(roots)
        # Where the last refresh looked, which may be more than it was asked for; None: everywhere.
        self._looked: Collection[str] | None = None
        self._former: dict[str, str] = {}
        self._lock = asyncio.Lock()
        self._rebuilding: asyncio.Task[None] | None = None
        self._rebuilt_at = float("-inf")

    @property
    def is_first_look(self) -> bool:
        """Whether the first scan of the files is in progress."""
        return self.report is None and self._lock.locked()

    async def refresh(
        self,
        within: Iterable[PurePosixPath] | None = None,
        *,
        trusts_stamps: bool = True,
        progress: Callable[[int], object] | None = None,
    ) -> SyncReport:
        """Bring the store up to date with all files, or those at some paths.

        A store that turns out to be damaged is renamed and rebuilt. The arguments and errors are
        those of `Index.refresh`.
        """
        within = None if within is None else tuple(within)
        async with self._lock:
            try:
                # Held until the thread has ended, even if the caller is cancelled: an older scan
                # must not be applied after a newer one.
                async with self._store.lease("files").acquire_async(patience=_LEASE_SECONDS):
                    with observe(SYNCS) as seen:
                        report = await self._refreshed(within, trusts_stamps, progress)
                        is_news = report.added or report.updated or report.removed
                        seen.outcome = "changed" if is_news else "unchanged"
            except SYNC_ERRORS as error:
                self.failure = str(error)
                if isinstance(error, RootUnreadableError) and len(self._roots) > 1:
                    # The other trees have been scanned.
                    self.changed.set()
                raise
            finally:
                self.filling = None
        self.failure, self.report, self.synced_at = None, report, time.time()
        self.left_out = self._left_out_after(report)
        self.broken = await finish_in_thread(self._broken_now)
        self.changed.set()
        return report

    def _left_out_after(self, report: SyncReport) -> tuple[ScanIssue, ...]:
        if self._looked is None:
            return report.issues
        # Paths that were not scanned are unchanged.
        looked = {*self._looked, *(it.path for it in report.issues)}
        kept = (
            it
            for it in self.left_out
            if looked.isdisjoint(map(str, [it.path, *PurePosixPath(it.path).parents]))
        )
        return tuple(sorted((*kept, *report.issues), key=attrgetter("path")))

    def _note_former(self, issues: Collection[ScanIssue], stored: StoredFiles) -> None:
        """Store the texts of tools that a scan is about to remove because their files broke."""
        paths = {issue.path for issue in issues} & stored.hashes.keys()
        if not paths:
            return
        ids = {it.id: it.path for it in stored.entries.values() if it.path in paths}
        with self._store.reading() as reader:
            for id_, entry in reader.entries([*ids]).items():
                self._former[ids[id_]] = f"{id_} {entry.description}"

    def _broken_now(self) -> dict[str, BrokenTool]:
        issues = suspects(self.left_out, self._former)
        paths = [issue.path for issue in issues]
        if not paths:
            return {}
        # A file of several tools may have others.
        stored = self._store.stored(reader_version=self._roots.reader_version, within=paths)
        good = {entry.path for entry in stored.entries.values()}
        found: dict[str, BrokenTool] = {}
        for issue in issues:
            text = self._former.get(issue.path, issue.text)
            tool = None if issue.path in good else broken_tool(issue, text, self._roots)
            if tool is not None:
                before = self.broken.get(issue.path)
                found[issue.path] = before if before and str(before) == str(tool) else tool
        self._former = {path: text for path, text in self._former.items() if path in found}
        return found

    async def with_repair(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call, and repeat it on a new store if it finds the store damaged."""
        try:
            return await call()
        except DamagedDatabaseError:
            await self.repair()
            return await call()

    async def repair(self) -> None:
        """Rename a damaged store; the next refresh rebuilds it."""
        aside = await finish_in_thread(self._store.quarantine)
        if aside is not None:
            _log.warning("%s", damage_note(aside))

    async def complete(self) -> None:
        """Fill an incomplete store, and wait a while for it.

        All waiting searches share the work. A recent failure is not retried.
        """
        now = asyncio.get_running_loop().time()
        if not self._completes or self._store.read_only:
            return
        if self._rebuilding is None or self._rebuilding.done():
            if self._lock.locked():
                await self._wait_for_others()
                return
            if now < self._rebuilt_at + _REBUILD_PAUSE:
                return
            self._rebuilt_at = now
            self._rebuilding = asyncio.create_task(self._rebuild())
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._rebuilt_at + _REBUILD_SECONDS):
                await asyncio.shield(self._rebuilding)

    async def _wait_for_others(self) -> None:
        """Wait briefly for a running refresh, which fills an incomplete store."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_OTHERS_SECONDS), self._lock:
                pass

    async def aclose(self) -> None:
        """Stop filling the store."""
        if self._rebuilding is not None:
            self._rebuilding.cancel()
            await asyncio.wait({self._rebuilding})

    async def _rebuild(self) -> None:
        with suppress(*SYNC_ERRORS):
            await self.refresh()
            self._rebuilt_at = float("-inf")

    async def _refreshed(
        self,
        within: Iterable[PurePosixPath] | None,
        trusts_stamps: bool,
        progress: Callable[[int], object] | None,
    ) -> SyncReport:
        loop = asyncio.get_running_loop()

        def note(filling: Filling) -> None:
            self.filling = filling

        def committed() -> None:
            # The loop may have been closed in the meantime.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self.changed.set)

        def looking(paths: Collection[str] | None) -> None:
            self._looked = paths

        def scan_and_sync(paths: Iterable[PurePosixPath] | None) -> SyncReport:
            try:
                report = refresh(
                    self._store,
                    self._roots,
                    paths,
                    completes=self._completes,
                    outside_links=self._outside_links,
                    trusts_stamps=trusts_stamps,
                    progress=progress,
                    filling=note,
                    committed=committed,
                    looking=looking,
                    leaving_out=self._note_former,
                )
            except RootUnreadableError:
                # The other roots are up to date.
                self._annotator.annotate(self._store)
                raise
            self._annotator.annotate(self._store)
            return report

        try:
            return await finish_in_thread(scan_and_sync, within)
        except DamagedDatabaseError:
            await self.repair()
            return await finish_in_thread(scan_and_sync, None)
