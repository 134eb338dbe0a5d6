"""From files to the index, the same way at start-up, for the watcher and for commands."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from toolindex import DatabaseBusyError
from toolscan import ScanReport, ToolScanError, find_tools, scan

from pytools_hybrid.errors import RootEmptiedError, RootUnreadableError
from pytools_hybrid.index._shared import SharedIndex
from pytools_hybrid.settings import Roots

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from pathlib import PurePosixPath

    from toolindex import StoredFiles, SyncReport, ToolStore
    from toolscan import Layout, ScanIssue, ToolId, ToolRecord

    from pytools_hybrid.settings import RootsLike

# A small first portion is found soon; growing ones make commits cheap. A kill loses at most one.
_FIRST_PORTION = 250
_GROWTH = 3
_LARGEST_PORTION = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """The progress of the first indexing of a tree."""

    read: int
    total: int

    def __str__(self) -> str:
        read = min(self.read, self.total)
        return f"{read:,} of about {self.total:,} files read so far"


def refresh(
    store: ToolStore,
    root: RootsLike,
    within: Iterable[PurePosixPath] | None = None,
    *,
    completes: bool = True,
    outside_links: bool = False,
    trusts_stamps: bool = True,
    progress: Callable[[int], object] | None = None,
    filling: Callable[[Filling], object] | None = None,
    committed: Callable[[], object] | None = None,
    looking: Callable[[Collection[str] | None], object] | None = None,
    leaving_out: Callable[[Collection[ScanIssue], StoredFiles], object] | None = None,
) -> SyncReport:
    """Bring the store up to date with the files; repeating it is harmless.

    Tools are committed in portions, so that they are found early and a kill loses little. Removed
    tools are deleted at the end, when all files are known. The caller holds the lease for files, so
    that an older scan is never applied after a newer one.

    Args:
        store: The store to write.
        root: The tree of tools, or several; if several have the same tool, the first one wins. One
            that does not exist has no tools.
        within: Only scan these paths, relative to each root.
        completes: Scan all paths if the store is incomplete: its file may have been removed in the
            meantime.
        outside_links: Whether to follow symbolic links that lead out of the root.
        trusts_stamps: Whether to skip files with unchanged size and times.
        progress: Called with the number of files scanned so far.
        filling: Called with the progress, if the store is incomplete.
        committed: Called after each portion, if the store is incomplete.
        looking: Called with the stored paths that are scanned, or None if all are.
        leaving_out: Called with the files that are left out and the stored entries, before tools
            are removed.

    Raises:
        RootUnreadableError: A root cannot be listed; its tools are unchanged, and those of other
            roots are up to date.
        RootEmptiedError: A tree that hosts share would lose all its tools; it is unchanged.
        toolindex.DatabaseError: The store cannot be written; earlier portions are kept.
    """
    roots = Roots.of(root)
    relative = None if within is None else _with_packages(within, roots.layouts)
    paths = None if relative is None else roots.stored_everywhere(relative)
    stored = store.stored(reader_version=roots.reader_version, within=paths)
    if completes and paths is not None and not (stored.is_current and stored.is_complete):
        relative, paths = None, None
        stored = store.stored(reader_version=roots.reader_version)
    if looking is not None:
        looking(paths)
    # Hosts without the files describe tools from their stored records.
    is_shared = isinstance(store, SharedIndex)
    # Only in an empty index is it certain that no tool has moved.
    keeps = is_shared or not stored.is_exactly(())
    portions = _Portions(store, roots, None if stored.is_complete else committed, keeps=keeps)
    if filling is not None and paths is None and not stored.is_complete:
        progress = _telling(filling, _count_tools(roots, outside_links=outside_links), progress)
    scanned, unreadable = scan_roots(
        roots,
        relative,
        known={**_places(roots, stored), **(stored.stamps if trusts_stamps else {})},
        hashes=stored.hashes,
        outside_links=outside_links,
        definitions=is_shared,
        progress=progress,
        # Files with entries by another version are read again, and all replaced together.
        found=portions if stored.is_current else None,
    )
    is_empty = not (scanned.records or scanned.unchanged or unreadable)
    if is_shared and paths is None and is_empty and len(stored.entries) > 1:
        # Perhaps the folder is wrong, or a disk is not mounted.
        raise RootEmptiedError(next(iter(roots)), store.where, len(stored.entries))
    if leaving_out is not None and scanned.issues:
        leaving_out(scanned.issues, stored)
    scanned = portions.completed(scanned)
    report = store.sync(scanned, reader_version=roots.reader_version, within=paths, stored=stored)
    report = portions.added_to(report)
    if report.rescan:
        # Where files cannot be locked, another process changed what this scan had skipped.
        relative = sorted({roots.resolve(path)[1] for path in report.rescan})
        paths = roots.stored_everywhere(relative)
        stored = store.stored(reader_version=roots.reader_version, within=paths)
        rescanned, others = scan_roots(
            roots,
            relative,
            known=_places(roots, stored),
            outside_links=outside_links,
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
    for error in unreadable:
        error.report = report
        raise error
    return report


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


def _count_tools(roots: Roots, *, outside_links: bool) -> int:
    """Count the tools of some trees, from file names alone; one that cannot be listed is empty."""
    ids: set[ToolId] = set()
    for root in roots:
        # The scan reports why it cannot be listed.
        with suppress(ToolScanError):
            ids.update(find_tools(root, layouts=roots.layouts, outside_links=outside_links))
    return len(ids)


def _with_packages(paths: Iterable[PurePosixPath], layouts: Iterable[Layout]) -> list[str]:
    """Add to some paths the packages that may export functions of these files."""
    changed = list(paths)
    several = [it for it in layouts if it.holds_several and it.pattern.endswith("/__init__.py")]
    packages = {f"{folder}/__init__.py" for path in changed for folder in path.parents if several}
    exporting = {it for it in packages if any(layout.values(it) for layout in several)}
    return sorted({*map(str, changed), *exporting})


class _Portions:
    """Commits the records of a running scan, in growing portions.

    Args:
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


def _telling(
    filling: Callable[[Filling], object], total: int, progress: Callable[[int], object] | None
) -> Callable[[int], None]:
    def tell(read: int) -> None:
        filling(Filling(read=read, total=total))
        if progress is not None:
            progress(read)

    tell(0)
    return tell
