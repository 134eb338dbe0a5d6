"""The two ways to iterate over the batches of a watch."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio.to_thread import run_sync

from toolwatch._watcher import Watch
from toolwatch.errors import NoRootError

if TYPE_CHECKING:
    import threading
    from collections.abc import AsyncGenerator, Callable, Generator, Iterable

    from toolwatch._batch import ChangeBatch

    StrPath = str | os.PathLike[str]


def awatch_tools(
    *roots: StrPath | Iterable[StrPath],
    debounce_ms: int = 50,
    step_ms: int = 10,
    polling: bool | None = None,
) -> AsyncGenerator[ChangeBatch]:
    """Yield a batch whenever something below one of some folders has changed, without end.

    The first batch of each root asks for a rescan and comes as soon as the root is being
    watched, so that nothing between the caller's own first look and this moment is lost; each
    time the root comes back after an absence there is another. What happens while the caller
    works is in the batches that follow. Cancelling the task or closing the iterator ends it.

    Args:
        *roots: The folders, also as a list; none need exist yet.
        debounce_ms: Changes that follow each other for up to this long come as one batch;
            where they never end, batches come further apart, at most a quarter of a second.
        step_ms: A batch is complete when nothing new happened for this long.
        polling: Whether to look through the roots at short intervals instead of relying on the
            system's notifications. By default this is done, and logged, if there are none or
            they turn out to be incomplete; with False, only if there are none.

    Raises:
        NoRootError: There are no roots.
        NotAFolderError: (when batches are asked for) Every root is a file. As long as there is
            another root, a file is like an absent folder.
        WatchUnavailableError: (when batches are asked for) No file can be opened any more.
    """
    watch = _prepared(roots, debounce_ms, step_ms, polling)
    return _aiterate(watch)


def watch_tools(
    *roots: StrPath | Iterable[StrPath],
    stop: threading.Event | None = None,
    debounce_ms: int = 50,
    step_ms: int = 10,
    polling: bool | None = None,
) -> Generator[ChangeBatch]:
    """Yield the batches of `awatch_tools` to a thread that waits for them.

    Args:
        *roots: The folders, also as a list; none need exist yet.
        stop: Ends the iteration within a moment when it is set, from whatever thread.
        debounce_ms: As in `awatch_tools`.
        step_ms: As in `awatch_tools`.
        polling: As in `awatch_tools`.

    Raises:
        NoRootError: There are no roots.
        NotAFolderError: (when batches are asked for) Every root is a file.
        WatchUnavailableError: (when batches are asked for) No file can be opened any more.
    """
    watch = _prepared(roots, debounce_ms, step_ms, polling)
    return _iterate(watch, stop)


def _prepared(
    roots: tuple[StrPath | Iterable[StrPath], ...],
    debounce_ms: int,
    step_ms: int,
    polling: bool | None,
) -> Callable[[], Watch]:
    """Settle now which folders are meant, and take nothing from the system before it is needed."""
    given: list[Path] = []
    for root in roots:
        if isinstance(root, str | os.PathLike):
            given.append(Path(root).absolute())
        else:
            given += [Path(each).absolute() for each in root]
    if not given:
        raise NoRootError

    def prepared() -> Watch:
        return Watch(
            list(dict.fromkeys(given)),
            debounce=debounce_ms / 1000,
            step=step_ms / 1000,
            polling=polling,
        )

    return prepared


async def _aiterate(prepared: Callable[[], Watch]) -> AsyncGenerator[ChangeBatch]:
    watch = prepared()
    waiting = anyio.CapacityLimiter(1)
    try:
        while batch := await run_sync(watch.next_batch, abandon_on_cancel=True, limiter=waiting):
            yield batch
    finally:
        watch.stop()
        with anyio.CancelScope(shield=True):
            try:
                await run_sync(watch.close, limiter=anyio.CapacityLimiter(1))
            except RuntimeError:
                # Python 3.12.0 to 3.12.2 start no thread once the main one has ended.
                watch.close()


def _iterate(prepared: Callable[[], Watch], stop: threading.Event | None) -> Generator[ChangeBatch]:
    with closing(prepared()) as watch:
        while batch := watch.next_batch(stop):
            yield batch
