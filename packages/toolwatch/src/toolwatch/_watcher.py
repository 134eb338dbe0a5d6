"""Watching several roots at once, from a thread, and the two ways to iterate over the batches."""

from __future__ import annotations

import os
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio.to_thread import run_sync

from toolwatch._debounce import DEBOUNCE_MS, STEP_MS, Pace
from toolwatch._roots import WatchedRoot
from toolwatch._tree import Tree
from toolwatch.errors import NoRootError, NotAFolderError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence

    from toolwatch._batch import ChangeBatch

    StrPath = str | os.PathLike[str]

_STOP_SECONDS = 0.05
"""How soon the caller's event is noticed: it can only be polled."""


class Watch:
    """Returns batches of several roots, one at a time, to one thread at a time.

    The listening threads collect changes between calls.
    """

    def __init__(
        self, roots: Sequence[Path], *, debounce: float, step: float, polling: bool | None
    ) -> None:
        """Prepare; `next_batch` scans the roots, whose paths are absolute.

        The other arguments are those of `awatch_tools`, with times in seconds.
        """
        self._stopped = threading.Event()
        self._bell = threading.Event()
        wake = self._bell.set
        self._roots = [
            WatchedRoot(
                path,
                follow=lambda root: Tree(root, wake, polling=polling),
                pace=Pace(debounce=debounce, step=step),
            )
            for path in roots
        ]
        self._lock = threading.Lock()

    def __del__(self) -> None:
        # If an event loop ends without closing an iterator, there is no other way to close it.
        self._release()

    def next_batch(self, stop: threading.Event | None = None) -> ChangeBatch | None:
        """Wait for the next batch; None says that the watch was stopped.

        Raises:
            NotAFolderError: There is nothing to watch: every root is a file.
        """
        with self._lock:
            while not self._stopped.is_set() and not (stop and stop.is_set()):
                now = time.monotonic()
                for root in self._roots:
                    root.look(now)
                if all(root.is_file for root in self._roots):
                    raise NotAFolderError(self._roots[0].path)
                for root in self._roots:
                    if batch := root.batch(now):
                        # Next time, the others come first.
                        self._roots.remove(root)
                        self._roots.append(root)
                        return batch
                self._wait(_STOP_SECONDS if stop else None)
            return None

    def stop(self) -> None:
        """Stop the waiting, from any thread."""
        self._stopped.set()
        self._bell.set()

    def close(self) -> None:
        """Stop all watches, once no thread is waiting for a batch."""
        self.stop()
        with self._lock:
            self._release()

    def _release(self) -> None:
        for root in self._roots:
            root.close()
        self._roots = []

    def _wait(self, longest: float | None) -> None:
        """Sleep until something is reported or due."""
        seconds = min(root.due for root in self._roots) - time.monotonic()
        if longest is not None:
            seconds = min(seconds, longest)
        self._bell.wait(max(seconds, 0.0))
        self._bell.clear()


def awatch_tools(
    *roots: StrPath | Iterable[StrPath],
    debounce_ms: int = DEBOUNCE_MS,
    step_ms: int = STEP_MS,
    polling: bool | None = None,
) -> AsyncGenerator[ChangeBatch]:
    """Yield a batch whenever something below one of the folders has changed, endlessly.

    The first batch of each root asks for a rescan, as soon as the root is being watched, so that no
    change between the caller's own first scan and this moment is lost. There is another one each
    time the root reappears. Cancel the task or close the iterator to stop.

    Changes that happen while the caller works are in later batches, except those that are undone
    before it asks for the next one. A caller that found a change on the disk should therefore look
    at the same paths once more after a moment.

    Args:
        *roots: The folders, or a list of them; they need not exist yet.
        debounce_ms: Consecutive changes within this time are one batch; if they never end, batches
            are delivered at most a quarter of a second apart.
        step_ms: A batch is complete when nothing has changed for this long.
        polling: Whether to scan the roots at short intervals instead of relying on the system's
            notifications. By default this is done, and logged, if there are none or they turn out
            to be incomplete; with False, only if there are none.

    Raises:
        NoRootError: There are no roots.
        NotAFolderError: (when batches are requested) Every root is a file. If there is another
            root, a file is treated like a missing folder.
        WatchUnavailableError: (when batches are requested) No more files can be opened.
    """
    watch = _prepared(roots, debounce_ms, step_ms, polling)
    return _aiterate(watch)


def watch_tools(
    *roots: StrPath | Iterable[StrPath],
    stop: threading.Event | None = None,
    debounce_ms: int = DEBOUNCE_MS,
    step_ms: int = STEP_MS,
    polling: bool | None = None,
) -> Generator[ChangeBatch]:
    """Yield the batches of `awatch_tools`, for use in a thread.

    It ends within a moment after any thread sets `stop`. The other arguments and the
    errors are those of `awatch_tools`.
    """
    watch = _prepared(roots, debounce_ms, step_ms, polling)
    return _iterate(watch, stop)


def _prepared(
    roots: tuple[StrPath | Iterable[StrPath], ...],
    debounce_ms: int,
    step_ms: int,
    polling: bool | None,
) -> Callable[[], Watch]:
    """Resolve the folders now, but use no system resources before they are needed."""
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
                # Python 3.12.0 to 3.12.2 cannot start a thread once the main thread has ended.
                watch.close()


def _iterate(prepared: Callable[[], Watch], stop: threading.Event | None) -> Generator[ChangeBatch]:
    with closing(prepared()) as watch:
        while batch := watch.next_batch(stop):
            yield batch
