"""File changes below folders, as settled batches of paths.

::

    async for batch in awatch_tools("generated", "shared"):
        refresh(batch.root, None if batch.rescan else batch.paths)

A batch names what to look at, never what happened: look at the disk. The folders may be
absent, appear later, be removed and come back; links to folders are followed. `watch_tools`
gives the same batches to a thread.
"""

from toolwatch._batch import ChangeBatch
from toolwatch._iterate import awatch_tools, watch_tools
from toolwatch.errors import (
    NoRootError,
    NotAFolderError,
    ToolWatchError,
    WatchUnavailableError,
)

__all__ = [
    "ChangeBatch",
    "NoRootError",
    "NotAFolderError",
    "ToolWatchError",
    "WatchUnavailableError",
    "awatch_tools",
    "watch_tools",
]
