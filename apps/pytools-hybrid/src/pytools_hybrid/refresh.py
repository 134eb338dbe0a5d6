"""Files to index: the one path that start-up, the watcher and the command line all take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolscan import TEXT_VERSION, RootNotFoundError, ScanReport, scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path, PurePosixPath

    from toolindex import SyncReport, ToolIndex
    from toolscan import FileStamp

__all__ = ["refresh"]

_READER = str(TEXT_VERSION)


def refresh(
    index: ToolIndex, root: Path, within: Iterable[PurePosixPath] | None = None
) -> SyncReport:
    """Make the index equal to the files; repeating it is harmless.

    Args:
        index: The index to write.
        root: The tree of tools. One that does not exist holds no tools.
        within: Look only at these paths, relative to the root.

    Raises:
        toolindex.DatabaseError: The index cannot be written; nothing has changed.
    """
    paths = None if within is None else [str(path) for path in within]
    known = index.known(reader_version=_READER)
    report = index.sync(_scan(root, paths, known), reader_version=_READER, within=paths)
    while report.rescan:
        # Another process removed entries that this scan had passed over as known.
        paths = list(report.rescan)
        report = index.sync(_scan(root, paths, {}), reader_version=_READER, within=paths)
    return report


def _scan(root: Path, within: Iterable[str] | None, known: Mapping[str, FileStamp]) -> ScanReport:
    try:
        return scan(root, within=within, known=known)
    except RootNotFoundError:
        return ScanReport(records=(), issues=())
