"""Files to index: the one path that start-up, the watcher and the command line all take."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from toolindex import DatabaseBusyError
from toolscan import ScanReport

from pytools_hybrid.index._union import Listing, scan_roots
from pytools_hybrid.settings import Roots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import PurePosixPath

    from toolindex import SyncReport, ToolStore
    from toolscan import ScanIssue, ToolRecord

    from pytools_hybrid.settings import RootsLike

# So the first tools can be found soon, and all commits of a large tree together cost little; a
# kill loses at most what is read between two of them.
_FIRST_PORTION = 250
_GROWTH = 3
_LARGEST_PORTION = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """The progress of the first indexing of a tree.

    Attributes:
        read: The number of files scanned so far.
        total: The number of files to scan.
    """

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
    max_tools: int | None = None,
    progress: Callable[[int], object] | None = None,
    filling: Callable[[Filling], object] | None = None,
    committed: Callable[[], object] | None = None,
) -> SyncReport:
    """Make the store equal to the files; repeating it is harmless.

    What is read is committed in portions, so that it can be found early and a kill loses little;
    what is gone is removed at the end, when all is known. Whoever calls it holds the lease for
    files, so that a scan which began earlier is never applied after one that began later.

    Args:
        store: The store to write.
        root: The tree of tools, or several; the first that has a tool counts. One that does not
            exist holds no tools.
        within: Look only at these paths, relative to the root, or to each of several.
        completes: Look at all paths all the same where the store does not hold the whole tree:
            its file may have been removed meanwhile.
        outside_links: Whether tools count too that symbolic links lead to outside of the root.
        trusts_stamps: Whether a file that looks as it did, by size and times, is not read again.
        max_tools: How many tools the store holds at most. All paths are looked at then: a tool
            that comes or goes may push out another, or make room for it.
        progress: Called with the number of files looked at so far.
        filling: Called with the progress, where the store does not hold the whole tree.
        committed: Called after each portion, where the store does not hold the whole tree.

    Raises:
        RootUnreadableError: A root cannot be listed; what is stored of it has not changed, and
            what is stored of other roots is equal to their files.
        toolindex.DatabaseError: The store cannot be written; it holds what was committed before.
    """
    roots = Roots.of(root)
    is_whole = within is None or max_tools is not None
    relative = None if within is None or is_whole else [str(path) for path in within]
    paths = None if relative is None else roots.stored_everywhere(relative)
    stored = store.stored(reader_version=roots.reader_version, within=paths)
    if completes and paths is not None and not (stored.is_current and stored.is_complete):
        relative, paths = None, None
        stored = store.stored(reader_version=roots.reader_version)
    portions = _Portions(store, roots, None if stored.is_complete else committed)
    beyond: tuple[ScanIssue, ...] = ()
    is_filling = filling is not None and paths is None and not stored.is_complete
    if is_filling or max_tools is not None:
        listing = Listing(roots, outside_links=outside_links)
        if max_tools is not None and len(listing) > max_tools:
            relative, beyond = listing.first(max_tools), listing.beyond(max_tools)
        if filling is not None and is_filling:
            progress = _telling(filling, len(listing) - len(beyond), progress)
    union = scan_roots(
        roots,
        relative,
        stored=stored,
        known=stored.stamps if trusts_stamps else {},
        hashes=stored.hashes,
        outside_links=outside_links,
        progress=progress,
        # Entries of another reader are all read again, and replaced only as a whole.
        found=portions if stored.is_current else None,
    )
    issues = tuple(sorted(union.scanned.issues + beyond, key=lambda issue: issue.path))
    scanned = replace(union.scanned, issues=issues)
    report = store.sync(scanned, reader_version=roots.reader_version, within=paths, stored=stored)
    report = portions.added_to(report)
    unreadable = union.unreadable
    if report.rescan:
        # Another process, where files cannot be locked, changed what this scan had passed over.
        relative = sorted({roots.locate(path)[1] for path in report.rescan})
        paths = roots.stored_everywhere(relative)
        stored = store.stored(reader_version=roots.reader_version, within=paths)
        union = scan_roots(
            roots, relative, stored=stored, known={}, hashes={}, outside_links=outside_links
        )
        unreadable += union.unreadable
        again = store.sync(union.scanned, reader_version=roots.reader_version, within=paths)
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


class _Portions:
    """Commits the records of a running scan, in growing portions.

    Args:
        store: The store.
        roots: The trees that are scanned.
        committed: Called after each portion.
    """

    def __init__(
        self, store: ToolStore, roots: Roots, committed: Callable[[], object] | None
    ) -> None:
        self._store = store
        self._roots = roots
        self._committed = committed
        self._records: list[ToolRecord] = []
        self._size = _FIRST_PORTION
        self._added = self._updated = 0

    def __call__(self, record: ToolRecord) -> None:
        # All tools of a file, or none: what is committed counts as read.
        is_next_file = bool(self._records) and self._records[-1].path != record.path
        if is_next_file and len(self._records) >= self._size:
            self._size = min(_GROWTH * self._size, _LARGEST_PORTION)
            # Records that cannot be written now are committed with the next portion, or at the end.
            with suppress(DatabaseBusyError):
                self._commit()
        self._records.append(record)

    def added_to(self, report: SyncReport) -> SyncReport:
        """Return the final report with the portions counted, which it found unchanged."""
        return replace(
            report,
            added=report.added + self._added,
            updated=report.updated + self._updated,
            unchanged=report.unchanged - self._added - self._updated,
        )

    def _commit(self) -> None:
        places = [self._roots.locate(record.path)[1] for record in self._records]
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
