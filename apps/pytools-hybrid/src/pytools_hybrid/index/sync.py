"""Keeping a store up to date with its trees: one scan at a time, applied in portions."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypeVar

from toolindex import DamagedDatabaseError, DatabaseBusyError, ToolIndexError, finish_in_thread
from toolscan import ScanReport, ToolScanError, find_tools, scan

from pytools_hybrid.errors import RootEmptiedError, RootUnreadableError
from pytools_hybrid.index.capabilities import Annotator
from pytools_hybrid.index.open import SharedIndex, damage_note
from pytools_hybrid.settings import Roots
from pytools_hybrid.telemetry import SYNCS, observe

if TYPE_CHECKING:
    from collections.abc import Awaitable, Collection, Iterable, Mapping

    from toolindex import StoredFiles, SyncReport, ToolStore
    from toolscan import Layout, ScanIssue, ToolId, ToolRecord

    from pytools_hybrid.settings import RootsLike

T = TypeVar("T")

Progress = Callable[[str, int, int | None], object]
"""Called from any thread with the current step, how much of it is done, and the total if known."""

_log = logging.getLogger("pytools_hybrid")

SYNC_ERRORS = (ToolIndexError, RootUnreadableError, RootEmptiedError, OSError)
"""Errors of an update that may be temporary."""

SCANNING = "scanning the files"

_LEASE_SECONDS = 30.0
_REBUILD_SECONDS = 10.0
_OTHERS_SECONDS = 2.0
_REBUILD_PAUSE = 30.0
# A small first portion is found soon; growing ones make commits cheap. A kill loses at most one.
_FIRST_PORTION = 250
_GROWTH = 3
_LARGEST_PORTION = 1_000
# A file with one of these faults was meant to be a tool, even if it never was one.
_FAULTS = {
    *("syntax_error", "too_deep", "surrogate", "encoding", "nul_bytes"),
    *("too_large", "unreadable", "empty"),
}
_NO_FAULTS = {"private", "duplicate_id", "vanished"}
_LINE = re.compile(r"Line (\d+): (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexingProgress:
    """The progress of the first indexing of a tree, in files."""

    read: int
    total: int

    def __str__(self) -> str:
        read = min(self.read, self.total)
        return f"{read:,} of about {self.total:,} files read so far"


@dataclass(slots=True)
class BrokenTool:
    """A file that was a tool, or was meant to be one.

    Attributes:
        id: The id of its tool; with `*` as the name if the file contains several.
        place: The file, with the line if there is one.
        problem: The reason, as a sentence.
        text: The tool's last indexed text, or the docstrings that can still be read.
        reported_at: When a search last reported it, in seconds of a monotonic clock.
    """

    id: str
    place: str
    problem: str
    text: str = field(repr=False)
    reported_at: float = float("-inf")

    def __str__(self) -> str:
        return f"{self.id} is left out until its file is repaired: {self.place}: {self.problem}"


class TreeSync:
    """Brings a store up to date with trees of files.

    Args:
        store: The store.
        root: The tree of tools, or several; if several have the same tool, the first one wins. One
            that does not exist has no tools.
        completes: Whether to scan all files if the store is incomplete: its file may have been
            removed in the meantime.
        outside_links: Whether to follow symbolic links that lead out of a root.

    Attributes:
        changed: Set whenever the store was brought up to date.
        failure: Why the last update failed, or None.
        report: The result of the last update; None before the first.
        left_out: All files that were left out, as far as updates have scanned them.
        synced_at: When the last update ended, in seconds since 1970.
        broken: The broken files that were tools or were meant to be, by path.
        progress: The progress of filling an incomplete store; otherwise None.
    """

    def __init__(
        self,
        store: ToolStore,
        root: RootsLike,
        *,
        completes: bool = True,
        outside_links: bool = False,
    ) -> None:
        self.changed: asyncio.Event = asyncio.Event()
        self.failure: str | None = None
        self.report: SyncReport | None = None
        self.left_out: tuple[ScanIssue, ...] = ()
        self.synced_at: float | None = None
        self.broken: dict[str, BrokenTool] = {}
        self.progress: IndexingProgress | None = None
        self._store = store
        self._roots = Roots.of(root)
        self._completes = completes
        self._outside_links = outside_links
        self._annotator = Annotator(self._roots)
        # The paths of the last scan, which may be more than it was asked for; None: all.
        self._scanned: Collection[str] | None = None
        # The texts of tools that a scan removed because their files broke.
        self._former: dict[str, str] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()
        self._rebuilding: asyncio.Task[None] | None = None
        self._rebuilt_at = float("-inf")

    @property
    def is_first_scan(self) -> bool:
        """Whether the first scan of the files is in progress."""
        return self.report is None and self._lock.locked()

    async def update(
        self,
        within: Iterable[PurePosixPath] | None = None,
        *,
        trusts_stamps: bool = True,
        progress: Progress | None = None,
    ) -> SyncReport:
        """Bring the store up to date with all files, or those at some paths.

        A store that turns out to be damaged is renamed and rebuilt.

        Args:
            within: The paths, relative to each root.
            trusts_stamps: Whether to skip files with unchanged size and times.
            progress: Called with the number of files scanned so far.

        Raises:
            DatabaseBusyError: Another process has been updating the store for half a minute.
            DatabaseError: The store cannot be written; earlier portions are kept.
            RootUnreadableError: A root cannot be listed; its tools are unchanged, and those of
                other roots are up to date.
            RootEmptiedError: A tree that hosts share would lose all its tools; it is unchanged.
        """
        within = None if within is None else tuple(within)
        async with self._lock:
            self._loop = asyncio.get_running_loop()
            try:
                # Held until the thread has ended, even if the caller is cancelled: an older scan
                # must not be applied after a newer one.
                async with self._store.lease("files").acquire_async(patience=_LEASE_SECONDS):
                    with observe(SYNCS) as seen:
                        scan = partial(self.scan, trusts_stamps=trusts_stamps, progress=progress)
                        try:
                            report = await finish_in_thread(scan, within)
                        except DamagedDatabaseError:
                            await self.repair()
                            report = await finish_in_thread(scan)
                        is_news = report.added or report.updated or report.removed
                        seen.outcome = "changed" if is_news else "unchanged"
            except SYNC_ERRORS as error:
                self.failure = str(error)
                if isinstance(error, RootUnreadableError) and len(self._roots) > 1:
                    # The other trees have been scanned.
                    self.changed.set()
                raise
            finally:
                self.progress = None
        self.failure, self.report, self.synced_at = None, report, time.time()
        self.left_out = self._left_out_after(report)
        self.broken = await finish_in_thread(self._broken_now)
        self.changed.set()
        return report

    def scan(
        self,
        within: Iterable[PurePosixPath] | None = None,
        *,
        trusts_stamps: bool = True,
        progress: Progress | None = None,
    ) -> SyncReport:
        """Scan files and apply what changed, in this thread; repeating it is harmless.

        Tools are committed in portions, so that they are found early and a kill loses little.
        Removed tools are deleted at the end, when all files are known. The caller holds the lease
        for files. Arguments and errors are those of `update`.
        """
        store, roots = self._store, self._roots
        relative = None if within is None else _with_packages(within, roots.layouts)
        paths = None if relative is None else roots.stored_everywhere(relative)
        stored = store.stored(reader_version=roots.reader_version, within=paths)
        if self._completes and paths is not None and not (stored.is_current and stored.is_complete):
            relative, paths = None, None
            stored = store.stored(reader_version=roots.reader_version)
        self._scanned = paths
        # Hosts without the files describe tools from their stored records.
        is_shared = isinstance(store, SharedIndex)
        # Only in an empty index is it certain that no tool has moved.
        keeps = is_shared or not stored.is_exactly(())
        portions = _Portions(
            store, roots, None if stored.is_complete else self._announce, keeps=keeps
        )
        is_filling = paths is None and not stored.is_complete
        total = self._count_tools() if is_filling else 0

        def note(read: int) -> None:
            if is_filling:
                self.progress = IndexingProgress(read=read, total=total)
            if progress is not None:
                progress(SCANNING, read, None)

        if is_filling:
            note(0)
        scanned, unreadable = scan_roots(
            roots,
            relative,
            known={**_places(roots, stored), **(stored.stamps if trusts_stamps else {})},
            hashes=stored.hashes,
            outside_links=self._outside_links,
            definitions=is_shared,
            progress=note,
            # Files with entries by another version are read again, and all replaced together.
            found=portions if stored.is_current else None,
        )
        is_empty = not (scanned.records or scanned.unchanged or unreadable)
        if is_shared and paths is None and is_empty and len(stored.entries) > 1:
            # Perhaps the folder is wrong, or a disk is not mounted.
            raise RootEmptiedError(next(iter(roots)), store.where, len(stored.entries))
        self._note_former(scanned.issues, stored)
        report = portions.added_to(
            store.sync(
                portions.completed(scanned),
                reader_version=roots.reader_version,
                within=paths,
                stored=stored,
            )
        )
        if report.rescan:
            # Where files cannot be locked, another process changed what this scan had skipped.
            relative = sorted({roots.resolve(path)[1] for path in report.rescan})
            paths = roots.stored_everywhere(relative)
            stored = store.stored(reader_version=roots.reader_version, within=paths)
            rescanned, others = scan_roots(
                roots,
                relative,
                known=_places(roots, stored),
                outside_links=self._outside_links,
                definitions=is_shared,
            )
            unreadable += others
            again = store.sync(rescanned, reader_version=roots.reader_version, within=paths)
            report = replace(
                report,
                added=report.added + again.added,
                updated=report.updated + again.updated,
                removed=report.removed + again.removed,
                issues=report.issues + again.issues,
                rescan=(),
            )
        self._annotator.annotate(store)
        for error in unreadable:
            error.report = report
            raise error
        return report

    def _announce(self) -> None:
        """Announce a portion, which can be found and embedded before the scan ends."""
        if self._loop is not None:
            # The loop may have been closed in the meantime.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self.changed.set)

    def _count_tools(self) -> int:
        """Count the tools of the trees from file names; a tree that cannot be listed is empty."""
        ids: set[ToolId] = set()
        for root in self._roots:
            # The scan reports why it cannot be listed.
            with suppress(ToolScanError):
                ids.update(
                    find_tools(root, layouts=self._roots.layouts, outside_links=self._outside_links)
                )
        return len(ids)

    def _left_out_after(self, report: SyncReport) -> tuple[ScanIssue, ...]:
        if self._scanned is None:
            return report.issues
        # Paths that were not scanned are unchanged.
        scanned = {*self._scanned, *(it.path for it in report.issues)}
        unchanged = (
            it
            for it in self.left_out
            if scanned.isdisjoint(map(str, [it.path, *PurePosixPath(it.path).parents]))
        )
        return tuple(sorted((*unchanged, *report.issues), key=attrgetter("path")))

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
        suspects = [
            issue
            for issue in self.left_out
            if issue.reason in _FAULTS
            or (issue.path in self._former and issue.reason not in _NO_FAULTS)
        ]
        paths = [issue.path for issue in suspects]
        if not paths:
            return {}
        # A file of several tools may have others.
        stored = self._store.stored(reader_version=self._roots.reader_version, within=paths)
        good = {entry.path for entry in stored.entries.values()}
        broken: dict[str, BrokenTool] = {}
        for issue in suspects:
            text = self._former.get(issue.path, issue.text)
            tool = None if issue.path in good else _broken_tool(issue, text, self._roots)
            if tool is not None:
                before = self.broken.get(issue.path)
                broken[issue.path] = before if before and str(before) == str(tool) else tool
        self._former = {path: text for path, text in self._former.items() if path in broken}
        return broken

    async def with_repair(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call, and repeat it on a new store if it finds the store damaged."""
        try:
            return await call()
        except DamagedDatabaseError:
            await self.repair()
            return await call()

    async def repair(self) -> None:
        """Rename a damaged store; the next update rebuilds it."""
        aside = await finish_in_thread(self._store.quarantine)
        if aside is not None:
            _log.warning("%s", damage_note(aside))

    async def fill(self) -> None:
        """Update an incomplete store, and wait a while for it.

        All waiting searches share the work. A recent failure is not retried.
        """
        now = asyncio.get_running_loop().time()
        if not self._completes or self._store.read_only:
            return
        if self._rebuilding is None or self._rebuilding.done():
            if self._lock.locked():
                # Wait briefly for the running update, which fills the store.
                with suppress(TimeoutError):
                    async with asyncio.timeout(_OTHERS_SECONDS), self._lock:
                        pass
                return
            if now < self._rebuilt_at + _REBUILD_PAUSE:
                return
            self._rebuilt_at = now
            self._rebuilding = asyncio.create_task(self._rebuild())
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._rebuilt_at + _REBUILD_SECONDS):
                await asyncio.shield(self._rebuilding)

    async def _rebuild(self) -> None:
        with suppress(*SYNC_ERRORS):
            await self.update()
            self._rebuilt_at = float("-inf")

    async def aclose(self) -> None:
        """Stop filling the store."""
        if self._rebuilding is not None:
            self._rebuilding.cancel()
            await asyncio.wait({self._rebuilding})


def scan_roots(
    roots: Roots,
    within: Collection[str] | None = None,
    *,
    known: Mapping[str, tuple[int, int, int, int] | None] | None = None,
    hashes: Mapping[str, str] | None = None,
    outside_links: bool,
    definitions: bool = False,
    progress: Callable[[int], object] | None = None,
    found: Callable[[ToolRecord], object] | None = None,
) -> tuple[ScanReport, tuple[RootUnreadableError, ...]]:
    """Scan all trees, as `toolscan.scan` does; one that does not exist has no tools.

    Returns:
        One report on all trees, with the paths used in the index, and why some trees could not be
        listed: their known tools are reported as unchanged.

    Raises:
        RootUnreadableError: No tree can be listed.
    """
    try:
        report = scan(
            roots.paths,
            layouts=roots.layouts,
            within=within,
            known=known,
            hashes=hashes,
            outside_links=outside_links,
            definitions=definitions,
            progress=progress,
            found=found,
        )
    except NotADirectoryError:
        return ScanReport(), ()
    places = {roots.stored_path(number, ""): root for number, root in enumerate(roots)}
    unreadable = tuple(
        RootUnreadableError(places[issue.path], issue.detail)
        for issue in report.issues
        if issue.path in places
    )
    if len(unreadable) == len(roots):
        raise unreadable[0]
    issues = tuple(issue for issue in report.issues if issue.path not in places)
    return replace(report, issues=issues), unreadable


def _places(roots: Roots, stored: StoredFiles) -> dict[str, None]:
    """Return the paths of stored tools, which stay if their tree cannot be listed."""
    return dict.fromkeys(it.path for it in stored.entries.values()) if len(roots) > 1 else {}


def _with_packages(paths: Iterable[PurePosixPath], layouts: Iterable[Layout]) -> list[str]:
    """Add to some paths the packages that may export functions of these files."""
    changed = list(paths)
    several = [it for it in layouts if it.holds_several and it.pattern.endswith("/__init__.py")]
    packages = {f"{folder}/__init__.py" for path in changed for folder in path.parents if several}
    exporting = {it for it in packages if any(layout.values(it) for layout in several)}
    return sorted({*map(str, changed), *exporting})


def _broken_tool(issue: ScanIssue, text: str, roots: Roots) -> BrokenTool | None:
    """Return the tool of a broken file, with its text; None if no layout has tools there."""
    _, relative = roots.resolve(issue.path)
    for layout in roots.layouts:
        if (values := layout.values(relative)) is not None and not layout.hides(relative):
            id_ = f"{layout.source}:{values['category']}:{values.get('name', '*')}"
            line = _LINE.match(issue.detail)
            place = roots.display_path(issue.path) + (f":{line[1]}" if line else "")
            return BrokenTool(id_, place, line[2] if line else issue.detail, text)
    return None


class _Portions:
    """Commits the records of a running scan, in growing portions.

    Args:
        committed: Called after each portion.
        keeps: Whether the scan's report has all records too; otherwise there is never more than a
            portion of them in memory.
    """

    def __init__(
        self,
        store: ToolStore,
        roots: Roots,
        committed: Callable[[], object] | None,
        *,
        keeps: bool,
    ) -> None:
        self._keeps = keeps
        self._store = store
        self._roots = roots
        self._committed = committed
        self._records: list[ToolRecord] = []
        self._size = _FIRST_PORTION
        self._added = self._updated = 0

    def __call__(self, record: ToolRecord) -> bool:
        # All tools of a file are committed together, because a file with committed tools counts as
        # read.
        is_next_file = bool(self._records) and self._records[-1].path != record.path
        if is_next_file and len(self._records) >= self._size:
            self._size = min(_GROWTH * self._size, _LARGEST_PORTION)
            # Records that cannot be written now are written with the next portion, or at the end.
            with suppress(DatabaseBusyError):
                self._commit()
        self._records.append(record)
        return not self._keeps

    def completed(self, scanned: ScanReport) -> ScanReport:
        """Return the report of the scan with the records that were not committed yet."""
        if self._keeps or not self._records:
            return scanned
        left = {record.path for record in self._records}
        return replace(
            scanned,
            records=tuple(sorted(self._records, key=lambda record: record.id)),
            unchanged=tuple(path for path in scanned.unchanged if path not in left),
        )

    def added_to(self, report: SyncReport) -> SyncReport:
        """Return the final report, with portions counted as added: the final sync saw no change."""
        return replace(
            report,
            added=report.added + self._added,
            updated=report.updated + self._updated,
            unchanged=report.unchanged - self._added - self._updated,
        )

    def _commit(self) -> None:
        places = [self._roots.resolve(record.path)[1] for record in self._records]
        report = self._store.sync(
            ScanReport(records=tuple(self._records)),
            reader_version=self._roots.reader_version,
            within=self._roots.stored_everywhere(places),
        )
        self._records = []
        self._added += report.added
        self._updated += report.updated
        if self._committed is not None:
            self._committed()
