"""File changes below a folder, as settled batches of paths.

::

    async for batch in awatch_tools("generated"):
        refresh(None if batch.rescan else batch.paths)

A batch names what to look at, never what happened: look at the disk. The folder may be
absent, appear later, be removed and come back.
"""

from toolwatch._watch import ChangeBatch, awatch_tools
from toolwatch.errors import NotAFolderError, ToolWatchError

__all__ = ["ChangeBatch", "NotAFolderError", "ToolWatchError", "awatch_tools"]
