"""Files to index: the one path that start-up, the watcher and the command line all take."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from toolscan import RECORD_VERSION, RootNotFoundError, ScanReport, scan

from pytools_hybrid.errors import RootUnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path, PurePosixPath

    from toolindex import SyncReport, ToolStore
    from toolscan import FileStamp

__all__ = ["refresh"]

_READER = str(RECORD_VERSION)


def refresh(
    store: ToolStore,
    root: Path,
    within: Iterable[PurePosixPath] | None = None,
    *,
    completes: bool = True,
    outside_links: bool = False,
) -> SyncReport:
    """Make the store equal to the files; repeating it is harmless.

    Whoever calls it holds the lease for files, so that a scan which began earlier is never
    applied after one that began later.

    Args:
        store: The store to write.
        root: The tree of tools. One that does not exist holds no tools.
        within: Look only at these paths, relative to the root.
        completes: Look at all paths all the same where the store does not hold the whole tree:
            its file may have been removed meanwhile.
        outside_links: Whether tools count too that symbolic links lead to outside of the root.

    Raises:
        RootUnreadableError: The root cannot be listed; nothing has changed.
        toolindex.DatabaseError: The store cannot be written; nothing has changed.
    """
    paths = None if within is None else [str(path) for path in within]
    stored = store.stored(reader_version=_READER, within=paths)
    if completes and paths is not None and not stored.is_current:
        paths, stored = None, store.stored(reader_version=_READER)
    scanned = _scan(root, paths, stored.stamps, outside_links=outside_links)
    report = store.sync(scanned, reader_version=_READER, within=paths, stored=stored)
    if report.rescan:
        # Another process, where files cannot be locked, changed what this scan had passed over.
        paths = list(report.rescan)
        scanned = _scan(root, paths, {}, outside_links=outside_links)
        again = store.sync(scanned, reader_version=_READER, within=paths)
        return replace(
            report,
            added=report.added + again.added,
            updated=report.updated + again.updated,
            removed=report.removed + again.removed,
            issues=report.issues + again.issues,
            rescan=(),
        )
    return report


def _scan(
    root: Path, within: Iterable[str] | None, known: Mapping[str, FileStamp], *, outside_links: bool
) -> ScanReport:
    try:
        report = scan(root, within=within, known=known, outside_links=outside_links)
    except RootNotFoundError:
        return ScanReport()
    for issue in report.issues:
        if not issue.path:
            raise RootUnreadableError(root, issue.detail)
    return report
