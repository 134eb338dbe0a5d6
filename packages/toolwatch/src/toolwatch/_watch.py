"""Watching one folder through its absence, removal and return."""

from __future__ import annotations

import logging
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import anyio
from watchfiles import awatch

from toolwatch._ignore import is_noise
from toolwatch.errors import NotAFolderError

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncGenerator, Iterable

    from watchfiles.main import FileChange

__all__ = ["ChangeBatch", "awatch_tools"]

_log = logging.getLogger("toolwatch")
_CHECK_MS = 200
"""How soon a fresh watch is announced, and a folder that went away without an event is missed."""

_SHORTEST_PAUSE = 0.2
_LONGEST_PAUSE = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBatch:
    """Where to look again.

    Attributes:
        paths: Files and folders below the root that changed, appeared or went, relative to
            it. A folder stands for everything in it.
        rescan: Whether anything below the root may have changed; `paths` is then empty.
    """

    paths: frozenset[PurePosixPath] = frozenset()
    rescan: bool = False


async def awatch_tools(
    root: str | os.PathLike[str], *, debounce_ms: int = 50, step_ms: int = 10
) -> AsyncGenerator[ChangeBatch]:
    """Yield a batch whenever something below a folder has changed, without end.

    The first batch asks for a rescan and comes as soon as the folder is being watched, so
    that nothing between the caller's own first look and this moment is lost; each time the
    folder comes back after an absence there is another.

    Args:
        root: The folder; it need not exist yet.
        debounce_ms: Changes that follow each other for up to this long come as one batch.
        step_ms: A batch is complete when nothing new happened for this long.

    Raises:
        NotAFolderError: The root is a file.
    """
    root = Path(root).absolute()
    pause = _SHORTEST_PAUSE
    while True:
        if root.exists() and not root.is_dir():
            raise NotAFolderError(root)
        if (identity := _identity(root)) is None:
            yield ChangeBatch(rescan=True)
            await _until_exists(root)
            continue
        interrupted = False
        try:
            async with aclosing(_watch_present(root, identity, debounce_ms, step_ms)) as batches:
                async for batch in batches:
                    pause = _SHORTEST_PAUSE
                    yield batch
        except* RuntimeError as error:
            # This is how watchfiles says that it cannot go on, as after a file name that is
            # not UTF-8. The next watch begins with a rescan, so nothing is missed.
            _log.warning("watching %s was interrupted: %s", root, error.exceptions[0])
            interrupted = True
        if interrupted:
            # Should no watch ever come up again, the caller still looks every now and then.
            yield ChangeBatch(rescan=True)
            await anyio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


async def _watch_present(
    root: Path, identity: tuple[int, int], debounce_ms: int, step_ms: int
) -> AsyncGenerator[ChangeBatch]:
    """Watch until the folder is no longer the one that was there at the start."""
    # Events carry real paths on some systems, so what is watched has to be one. If it goes
    # away before the watch is set up, the watch is on nothing, and no error says so while
    # permissions are ignored: the identity does.
    real_root = root.resolve()
    events = _events(real_root, recursive=True, debounce_ms=debounce_ms, step_ms=step_ms)
    armed = False
    async with aclosing(events):
        async for changes in events:
            if not armed:
                armed = True
                yield ChangeBatch(rescan=True)
            paths = _relative(real_root, (path for _, path in changes))
            # A watch on a folder that is gone stays silent. Its inode tells that another took
            # its place, except where a new folder was given the old one's number at once:
            # then the event about the folder itself tells.
            if _identity(root) != identity or PurePosixPath() in paths:
                return
            if paths:
                yield ChangeBatch(paths=paths)


async def _until_exists(root: Path) -> None:
    """Wait for a folder by watching the nearest folder above it that exists, and only that."""
    above = next(parent for parent in root.parents if parent.is_dir())
    events = _events(above, recursive=False, debounce_ms=50, step_ms=10)
    async with aclosing(events):
        async for _ in events:
            nearest = next(parent for parent in root.parents if parent.is_dir())
            if root.exists() or nearest != above:
                return


def _events(
    folder: Path, *, recursive: bool, debounce_ms: int, step_ms: int
) -> AsyncGenerator[set[FileChange]]:
    """Watch one folder; every so often the set of changes is empty, to look around."""
    return awatch(
        folder,
        watch_filter=None,
        debounce=debounce_ms,
        step=step_ms,
        rust_timeout=_CHECK_MS,
        yield_on_timeout=True,
        recursive=recursive,
        ignore_permission_denied=True,
    )


def _identity(root: Path) -> tuple[int, int] | None:
    try:
        status = root.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _relative(root: Path, paths: Iterable[str]) -> frozenset[PurePosixPath]:
    below = (Path(path) for path in paths)
    relative = (
        PurePosixPath(p.relative_to(root).as_posix()) for p in below if p.is_relative_to(root)
    )
    return frozenset(path for path in relative if not is_noise(path))
