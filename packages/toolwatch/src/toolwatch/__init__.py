"""File changes below folders, as settled batches of paths.

::

    async for batch in awatch_tools("generated", "shared"):
        refresh(batch.root, None if batch.rescan else batch.paths)

A batch says where to look, not what happened: check the disk. The folders may be missing, appear
later, or be removed and restored; links to folders are followed. `watch_tools` yields the same
batches to a thread.
"""

from toolwatch._errors import ToolWatchError as ToolWatchError
from toolwatch._root import ChangeBatch as ChangeBatch
from toolwatch._watcher import awatch_tools as awatch_tools
from toolwatch._watcher import watch_tools as watch_tools
