"""Watching several roots at once, for whoever waits in a thread."""

from __future__ import annotations

import logging
import selectors
import threading
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from toolwatch._bell import Bell
from toolwatch._inotify import has_inotify
from toolwatch._notified import NotifiedTree
from toolwatch._notifier import Notifier
from toolwatch._pace import Pace
from toolwatch._roots import WatchedRoot
from toolwatch.errors import NotAFolderError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from toolwatch._batch import ChangeBatch
    from toolwatch._tree import Tree

__all__ = ["Watch"]

_log = logging.getLogger("toolwatch")
_STOP_SECONDS = 0.05
"""How soon an event of the caller's that is set is noticed: nothing can wait for it."""

_GATHER_SECONDS = 0.02
"""For how long at most notifications are left in their queue, which has a limit."""


class Watch:
    """Gives batches of several roots, one at a time, to one thread at a time.

    What happens while nobody asks is kept by the system, and where it could not keep all of
    it, the next batches are rescans.
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
        self._anywhere = polling is False
        self._notifier: Notifier | None = None
        self._roots = [
            WatchedRoot(
                path,
                follow=None if polling else self._follow,
                pace=Pace(debounce=debounce, step=step),
            )
            for path in roots
        ]
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._lent = ExitStack()
        self._bell = self._lent.enter_context(closing(Bell()))
        self._calm = self._lent.enter_context(selectors.DefaultSelector())
        self._calm.register(self._bell, selectors.EVENT_READ)
        self._alert = self._lent.enter_context(selectors.DefaultSelector())
        self._alert.register(self._bell, selectors.EVENT_READ)

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
                self._hear(now)
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
        self._bell.ring()

    def close(self) -> None:
        """End all watches, as soon as nobody waits any more."""
        self.stop()
        with self._lock:
            self._release()

    def _release(self) -> None:
        for root in self._roots:
            root.close()
        self._roots = []
        self._lent.close()

    def _follow(self, root: str) -> Tree:
        if not has_inotify():
            from toolwatch._hinted import HintedTree

            return HintedTree(root, self._bell.ring)
        if self._notifier is None:
            self._notifier = self._lent.enter_context(closing(Notifier()))
            self._alert.register(self._notifier, selectors.EVENT_READ)
        return NotifiedTree(root, self._notifier, anywhere=self._anywhere)

    def _hear(self, now: float) -> None:
        if self._notifier is not None and self._notifier.pass_on():
            _log.info("more happened than the system keeps; everything is looked at again")
            for root in self._roots:
                root.start_over(now)

    def _wait(self, longest: float | None) -> None:
        """Sleep until something happens or is due.

        Once something has happened, more of it wakes nobody: it is taken together in a moment.
        """
        seconds = min(root.due for root in self._roots) - time.monotonic()
        selector = self._alert
        if any(root.pending for root in self._roots):
            selector = self._calm
            seconds = min(seconds, _GATHER_SECONDS)
        if longest is not None:
            seconds = min(seconds, longest)
        for key, _ in selector.select(max(seconds, 0.0)):
            if key.fileobj is self._bell:
                self._bell.hush()
