"""Files to index: the one path that start-up, the watcher and the command line all take."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from toolscan import RECORD_VERSION

from pytools_hybrid.roots import Roots
from pytools_hybrid.union import scan_roots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import PurePosixPath

    from toolindex import SyncReport, ToolStore

    from pytools_hybrid.roots import RootsLike

__all__ = ["refresh"]

_READER = str(RECORD_VERSION)


def refresh(
    store: ToolStore,
    root: RootsLike,
    within: Iterable[PurePosixPath] | None = None,
    *,
    completes: bool = True,
    outside_links: bool = False,
    trusts_stamps: bool = True,
    progress: Callable[[int], object] | None = None,
) -> SyncReport:
    """Make the store equal to the files; repeating it is harmless.

    Whoever calls it holds the lease for files, so that a scan which began earlier is never
    applied after one that began later.

    Args:
        store: The store to write.
        root: The tree of tools, or several; the first that has a tool counts. One that does not
            exist holds no tools.
        within: Look only at these paths, relative to the root, or to each of several.
        completes: Look at all paths all the same where the store does not hold the whole tree:
            its file may have been removed meanwhile.
        outside_links: Whether tools count too that symbolic links lead to outside of the root.
        trusts_stamps: Whether a file that looks as it did, by size and times, is not read again.
        progress: Called with the number of files looked at so far.

    Raises:
        RootUnreadableError: A root cannot be listed; what is stored of it has not changed, and
            what is stored of other roots is equal to their files.
        toolindex.DatabaseError: The store cannot be written; nothing has changed.
    """
    roots = Roots.of(root)
    relative = None if within is None else [str(path) for path in within]
    paths = None if relative is None else roots.stored_everywhere(relative)
    stored = store.stored(reader_version=_READER, within=paths)
    if completes and paths is not None and not stored.is_current:
        relative, paths = None, None
        stored = store.stored(reader_version=_READER)
    union = scan_roots(
        roots,
        relative,
        stored=stored,
        known=stored.stamps if trusts_stamps else {},
        outside_links=outside_links,
        progress=progress,
    )
    report = store.sync(union.scanned, reader_version=_READER, within=paths, stored=stored)
    unreadable = union.unreadable
    if report.rescan:
        # Another process, where files cannot be locked, changed what this scan had passed over.
        relative = sorted({roots.locate(path)[1] for path in report.rescan})
        paths = roots.stored_everywhere(relative)
        stored = store.stored(reader_version=_READER, within=paths)
        union = scan_roots(roots, relative, stored=stored, known={}, outside_links=outside_links)
        unreadable += union.unreadable
        again = store.sync(union.scanned, reader_version=_READER, within=paths)
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
