"""Watching several roots at once, from a thread, and the two ways to iterate over the batches."""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from toolwatch._errors import NoRootError, NotAFolderError
from toolwatch._root import WatchedRoot

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Iterable, Sequence

    from watchfiles import Change

    from toolwatch._root import ChangeBatch

    StrPath = str | os.PathLike[str]

DEBOUNCE_MS = 50
"""The default limit for collecting consecutive changes."""

STEP_MS = 10
"""The default silence that ends a batch."""

_WAIT_MS = 50
"""How often the roots themselves are checked while nothing is reported."""

_RETRY_SECONDS = 30.0
"""When watchfiles is retried after it could not listen."""

_MAX_LINKS = 20
"""With more links between folders, their names may be countless."""

_log = logging.getLogger("toolwatch")


class Watch:
    """Returns batches of several roots, one at a time, to one thread at a time.

    watchfiles collects paths between calls. They are hints: it may report a path without a change,
    under one of several names, or never. It reports neither overflows of the system's queue of
    events nor changes while it delivers a batch.
    """

    def __init__(
        self, roots: Sequence[Path], *, debounce_ms: int, step_ms: int, polling: bool
    ) -> None:
        """Prepare; `next_batch` looks at the roots, whose paths are absolute."""
        self._roots = [WatchedRoot(path) for path in roots]
        self._debounce_ms, self._step_ms = debounce_ms, step_ms
        self._polling = polling
        self._hints: Generator[set[tuple[Change, str]]] | None = None
        self._is_outdated, self._listen_at, self._problem = False, 0.0, ""
        self._rescan: tuple[WatchedRoot, float] | None = None
        self._stopped = threading.Event()
        self._stop: threading.Event | None = None
        self._lock = threading.Lock()

    def next_batch(self, stop: threading.Event | None = None) -> ChangeBatch | None:
        """Wait for the next batch; None says that the watch was stopped.

        Raises:
            NotAFolderError: There is nothing to watch: every root is a file.
        """
        with self._lock:
            self._stop = stop
            if self._rescan is not None:
                root, began = self._rescan
                root.rescanned(time.monotonic() - began)
                self._rescan = None
            while not self.is_set():
                now = time.monotonic()
                changed = [root for root in self._roots if root.check(now)]
                if all(root.is_file for root in self._roots):
                    raise NotAFolderError(self._roots[0].path)
                if changed or (self._is_outdated and now >= self._listen_at):
                    self._listen()
                for root in self._roots:
                    if batch := root.batch(now):
                        # Next time, the others come first.
                        self._roots.remove(root)
                        self._roots.append(root)
                        if batch.rescan:
                            self._rescan = root, time.monotonic()
                        return batch
                self._collect()
            return None

    def stop(self) -> None:
        """Stop the waiting, from any thread."""
        self._stopped.set()

    def close(self) -> None:
        """Stop the watch, once no thread is waiting for a batch."""
        self.stop()
        with self._lock:
            self._close_hints()

    def is_set(self) -> bool:
        """Return whether to stop; watchfiles calls this every few milliseconds."""
        return self._stopped.is_set() or (self._stop is not None and self._stop.is_set())

    def _listen(self) -> None:
        """Listen to all folders that are there now, and let the caller scan them once more."""
        from watchfiles import watch

        began = time.monotonic()
        self._close_hints()
        self._is_outdated, problem = False, ""
        folders = [root.real_path for root in self._roots if root.real_path]
        if self._polling or not folders:
            pass
        elif sum(map(_count_links, folders)) > _MAX_LINKS:
            problem = f"more than {_MAX_LINKS} links to folders lead back into it"
        else:
            hints = watch(
                *folders,
                watch_filter=None,
                debounce=self._debounce_ms,
                step=self._step_ms,
                stop_event=self,
                rust_timeout=_WAIT_MS,
                yield_on_timeout=True,
                debug=False,
                force_polling=False,
            )
            try:
                # It begins to listen when the first changes are requested.
                self._take(hints)
                self._hints = hints
            except (OSError, RuntimeError) as error:
                problem = str(error)
        # Links that change all the time must not take all of the time.
        self._listen_at = time.monotonic() + 20 * (time.monotonic() - began)
        self._note_problem(problem)

    def _note_problem(self, problem: str) -> None:
        """Let all roots be rescanned, and polled for a while if watchfiles has a problem."""
        for root in self._roots:
            root.polling = bool(root.real_path) and (self._polling or bool(problem))
            root.rescan()
        if problem:
            self._is_outdated, self._listen_at = True, time.monotonic() + _RETRY_SECONDS
            if problem != self._problem:
                names = ", ".join(str(root.path) for root in self._roots if root.real_path)
                _log.warning("%s is polled: %s", names, problem)
        self._problem = problem

    def _collect(self) -> None:
        """Wait a moment for hints."""
        if self._hints is None:
            self._stopped.wait(_WAIT_MS / 1000)
            return
        try:
            self._take(self._hints)
        except (OSError, RuntimeError) as error:
            self._hints = None
            self._note_problem(str(error))

    def _close_hints(self) -> None:
        if self._hints is not None:
            self._hints.close()
            self._hints = None

    def _take(self, hints: Generator[set[tuple[Change, str]]]) -> None:
        from watchfiles import Change

        for kind, path in next(hints, ()):
            is_folder = os.path.isdir(path)  # noqa: PTH112
            # New links, and folders whose permissions changed, are not listened to yet.
            self._is_outdated |= is_folder and (kind is Change.modified or os.path.islink(path))  # noqa: PTH114
            for root in self._roots:
                if path == root.real_path:
                    # It may have been removed and made again with the same inode.
                    root.forget()
                elif root.real_path:
                    root.note(path, is_folder=is_folder)


def _count_links(root: str) -> int:
    """Return how many links to folders lead back into the root, or a few more than allowed.

    watchfiles follows them under every name that they have through each other.
    """
    links = 0
    for above, folders, _ in os.walk(root):
        for path in (f"{above}/{name}" for name in folders):
            if os.path.islink(path):  # noqa: PTH114
                target = os.path.realpath(path)
                links += target == root or target.startswith(root + os.sep)
        if links > _MAX_LINKS:
            break
    return links


def awatch_tools(
    *roots: StrPath | Iterable[StrPath],
    debounce_ms: int = DEBOUNCE_MS,
    step_ms: int = STEP_MS,
    polling: bool = False,
) -> AsyncGenerator[ChangeBatch]:
    """Yield a batch whenever something below one of the folders has changed, endlessly.

    The first batch of each root asks for a rescan, as soon as the root is being watched, so that no
    change between the caller's own first scan and this moment is lost. There is another one each
    time the root reappears, and one every ten seconds, because no system reports every change. If
    the caller needs longer than a tenth of a second for one (until it asks for the next batch), the
    time until the next is a hundred times as long. Cancel the task or close the iterator to stop.

    What the caller reads may exist only briefly, so it should read the paths of a change once more
    a moment later.

    Args:
        *roots: The folders, or a list of them; they need not exist yet.
        debounce_ms: Consecutive changes within this time are one batch; if they never end, there
            are four batches a second.
        step_ms: A batch is complete when nothing has changed for this long.
        polling: Whether to ask for a rescan every half second (or twenty times as long as the
            caller needs for one) instead of relying on the system's notifications. This is also
            done, and logged, if the system cannot watch a root.

    Raises:
        NoRootError: There are no roots.
        NotAFolderError: (when batches are requested) Every root is a file. If there is another
            root, a file is treated like a missing folder.
    """
    return _aiterate(_watch(roots, debounce_ms, step_ms, polling))


def watch_tools(
    *roots: StrPath | Iterable[StrPath],
    stop: threading.Event | None = None,
    debounce_ms: int = DEBOUNCE_MS,
    step_ms: int = STEP_MS,
    polling: bool = False,
) -> Generator[ChangeBatch]:
    """Yield the batches of `awatch_tools`, for use in a thread.

    It ends within a moment after any thread sets `stop`. The other arguments and the
    errors are those of `awatch_tools`.
    """
    return _iterate(_watch(roots, debounce_ms, step_ms, polling), stop)


def _watch(
    roots: tuple[StrPath | Iterable[StrPath], ...], debounce_ms: int, step_ms: int, polling: bool
) -> Watch:
    """Resolve the folders now, but use no system resources before they are needed."""
    paths: list[Path] = []
    for root in roots:
        each = [root] if isinstance(root, str | os.PathLike) else root
        paths += [Path(path).absolute() for path in each]
    if not paths:
        raise NoRootError
    unique = list(dict.fromkeys(paths))
    return Watch(unique, debounce_ms=debounce_ms, step_ms=step_ms, polling=polling)


async def _aiterate(watch: Watch) -> AsyncGenerator[ChangeBatch]:
    import anyio  # threads do without it
    from anyio.to_thread import run_sync

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


def _iterate(watch: Watch, stop: threading.Event | None) -> Generator[ChangeBatch]:
    with closing(watch):
        while batch := watch.next_batch(stop):
            yield batch
