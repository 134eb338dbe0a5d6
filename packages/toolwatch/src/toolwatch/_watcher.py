"""Watching several roots at once, from a thread."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from toolwatch._pace import Pace
from toolwatch._roots import WatchedRoot
from toolwatch._tree import Tree
from toolwatch.errors import NotAFolderError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from toolwatch._batch import ChangeBatch

_STOP_SECONDS = 0.05
"""How soon an event of the caller's that is set is noticed: nothing can wait for it."""


class Watch:
    """Returns batches of several roots, one at a time, to one thread at a time.

    What happens while nobody asks is collected by the threads that listen.
    """

    def __init__(
        self, roots: Sequence[Path], *, debounce: float, step: float, polling: bool | None
    ) -> None:
        """Prepare; the roots are looked at by `next_batch`.

        Args:
            roots: Absolute paths.
            debounce: How long changes are gathered at most, in seconds, unless they never end.
            step: How long a silence ends a batch, in seconds.
            polling: Whether to look through the roots at intervals; None to do so where needed.
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
        # An iterator that is left behind when its event loop ends has no other way to close.
        self._release()

    def next_batch(self, stop: threading.Event | None = None) -> ChangeBatch | None:
        """Wait for the next batch; None says that the watch was stopped.

        Args:
            stop: Ends the waiting when it is set.

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
                        # The others' turn comes first next time.
                        self._roots.remove(root)
                        self._roots.append(root)
                        return batch
                self._wait(_STOP_SECONDS if stop else None)
            return None

    def stop(self) -> None:
        """End the waiting, from any thread."""
        self._stopped.set()
        self._bell.set()

    def close(self) -> None:
        """End all watches, as soon as nobody waits any more."""
        self.stop()
        with self._lock:
            self._release()

    def _release(self) -> None:
        for root in self._roots:
            root.close()
        self._roots = []

    def _wait(self, longest: float | None) -> None:
        """Sleep until something is heard or due."""
        seconds = min(root.due for root in self._roots) - time.monotonic()
        if longest is not None:
            seconds = min(seconds, longest)
        self._bell.wait(max(seconds, 0.0))
        self._bell.clear()
