"""Following a root by snapshots that are taken when the system says that something happened.

This is the way of systems other than Linux. Their notifications say reliably enough *when* to
look; *what* is different is for a snapshot to tell. A slow round of snapshots finds what they
do not announce: an overflow, or what lies behind a link that came later.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from watchfiles import watch

from toolwatch._polled import PolledTree
from toolwatch._tree import NotificationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolwatch._tree import Changes

__all__ = ["HintedTree"]

_SWEEP_SECONDS = 2.0
_TRIES = 3


class HintedTree:
    """Everything below a root, symbolic links to folders included, as the system hints at it."""

    polling = False

    def __init__(self, root: str, wake: Callable[[], None]) -> None:
        """Look through the root for the first time, and begin to listen.

        Args:
            root: Its absolute path.
            wake: Called from another thread when there is something to collect.

        Raises:
            OSError: The root is no folder.
            NotificationError: The system's notifications cannot be used here.
        """
        self._root = root
        self._wake = wake
        self._failures = 0
        self._polled = PolledTree(root, interval=_SWEEP_SECONDS)
        self._listener = self._listen()

    @property
    def due(self) -> float:
        """When the next snapshot is taken without a hint."""
        return self._polled.due

    def collect(self, now: float) -> Changes:
        """Give what has changed, having looked again if there was a hint."""
        if self._listener.hint.is_set():
            self._listener.hint.clear()
            self._polled.hurry(now)
        changes = self._polled.collect(now)
        self._follow()
        return changes

    def close(self) -> None:
        """End the thread that listens."""
        self._listener.close()

    def _follow(self) -> None:
        """Listen elsewhere when other folders are what the root is made of."""
        listener = self._listener
        if listener.armed:
            self._failures = 0
        if listener.error is not None:
            self._failures += 1
            if self._failures == _TRIES:
                raise NotificationError(f"listening failed ({listener.error})")
        elif not listener.stale and listener.targets == self._targets() and not self._crowded():
            return
        self._listener = self._listen()
        listener.close()

    def _listen(self) -> _Listener:
        if self._crowded():
            # The library below would go through every one of them.
            raise NotificationError("links to each other give its folders too many names")
        return _Listener(self._targets(), self._wake)

    def _crowded(self) -> bool:
        return self._polled.snapshot.crowded

    def _targets(self) -> frozenset[tuple[str, int]]:
        real = os.path.realpath(self._root)
        status = os.stat(real)  # noqa: PTH116
        linked = ((path, inode) for path, (_, inode) in self._polled.snapshot.linked)
        return frozenset({(real, status.st_ino), *linked})


class _Listener:
    """A thread that waits for the system to announce something below some folders."""

    def __init__(self, targets: frozenset[tuple[str, int]], wake: Callable[[], None]) -> None:
        self.targets = targets
        self.hint = threading.Event()
        self.armed = False
        self.stale = False
        self.error: Exception | None = None
        self._wake = wake
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="toolwatch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        folders = {path for path, _ in self.targets}
        announcements = watch(
            *sorted(folders),
            watch_filter=None,
            debounce=50,
            step=10,
            stop_event=self._stop,
            rust_timeout=50,
            yield_on_timeout=True,
            raise_interrupt=False,
            force_polling=False,
        )
        try:
            for changes in announcements:
                # A folder that takes the place of this one may have the same number as this one.
                self.stale = self.stale or any(path in folders for _, path in changes)
                # The first round may well be empty: from here on, all is announced.
                if changes or not self.armed:
                    self.armed = True
                    self._tell()
        except (OSError, RuntimeError) as error:
            self.error = error
            self._tell()

    def _tell(self) -> None:
        self.hint.set()
        self._wake()
