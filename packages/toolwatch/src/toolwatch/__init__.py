"""File changes below folders, as settled batches of paths.

::

    async for batch in awatch_tools("generated", "shared"):
        refresh(batch.root, None if batch.rescan else batch.paths)

A batch says where to look, not what happened: check the disk. The folders may be missing, appear
later, or be removed and restored; links to folders are followed. `watch_tools` yields the same
batches to a thread.
"""

from typing import TYPE_CHECKING

from toolwatch.errors import NoRootError, NotAFolderError, ToolWatchError

if TYPE_CHECKING:
    from toolwatch._root import ChangeBatch
    from toolwatch._watcher import awatch_tools, watch_tools
else:
    # Imported at its first use: programs that only catch our errors need not wait for the watcher.
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
    "awatch_tools",
    "watch_tools",
]

_HOMES = {
    name: module
    for module, names in {
        "_root": "ChangeBatch",
        "_watcher": "awatch_tools watch_tools",
    }.items()
    for name in names.split()
}
