"""File changes below folders, as settled batches of paths.

::

    async for batch in awatch_tools("generated", "shared"):
        refresh(batch.root, None if batch.rescan else batch.paths)

A batch says where to look, never what happened: look at the disk. The folders may be absent,
appear later, be removed and come back; links to folders are followed. `watch_tools` yields the
same batches to a thread.
"""

from typing import TYPE_CHECKING

from toolwatch.errors import (
    NoRootError,
    NotAFolderError,
    ToolWatchError,
    WatchUnavailableError,
)

if TYPE_CHECKING:
    from toolwatch._batch import ChangeBatch
    from toolwatch._watcher import awatch_tools, watch_tools
else:
    # Imported with its first use: who only catches our errors need not wait for what watches.
    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_HOMES})


__all__ = [
    "ChangeBatch",
    "NoRootError",
    "NotAFolderError",
    "ToolWatchError",
    "WatchUnavailableError",
    "awatch_tools",
    "watch_tools",
]

_HOMES = {
    name: module
    for module, names in {
        "_batch": "ChangeBatch",
        "_watcher": "awatch_tools watch_tools",
    }.items()
    for name in names.split()
}
