"""Files to index: the one path that start-up, the watcher and the command line all take."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from toolscan import RECORD_VERSION, RootNotFoundError, ScanReport, scan

from pytools_hybrid.errors import RootUnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path, PurePosixPath

    from toolindex import SyncReport, ToolIndex
    from toolscan import FileStamp

__all__ = ["refresh"]

_READER = str(RECORD_VERSION)


def refresh(
    index: ToolIndex, root: Path, within: Iterable[PurePosixPath] | None = None
) -> SyncReport:
    """Make the index equal to the files; repeating it is harmless.

    Args:
        index: The index to write.
        root: The tree of tools. One that does not exist holds no tools.
        within: Look only at these paths, relative to the root.

    Raises:
        RootUnreadableError: The root cannot be listed; nothing has changed.
        toolindex.DatabaseError: The index cannot be written; nothing has changed.
    """
    paths = None if within is None else [str(path) for path in within]
    known = index.known(reader_version=_READER)
    report = index.sync(_scan(root, paths, known), reader_version=_READER, within=paths)
    if report.rescan:
        # Another process removed entries that this scan had passed over as known.
        paths = list(report.rescan)
        again = index.sync(_scan(root, paths, {}), reader_version=_READER, within=paths)
        return replace(
            report,
            added=report.added + again.added,
            updated=report.updated + again.updated,
            removed=report.removed + again.removed,
            issues=report.issues + again.issues,
            rescan=(),
        )
    return report


def _scan(root: Path, within: Iterable[str] | None, known: Mapping[str, FileStamp]) -> ScanReport:
    try:
        report = scan(root, within=within, known=known)
    except RootNotFoundError:
        return ScanReport()
    for issue in report.issues:
        if not issue.path:
            raise RootUnreadableError(root, issue.detail)
    return report
