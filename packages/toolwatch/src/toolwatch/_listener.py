"""Listening to watchfiles."""

from __future__ import annotations

import sys
import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Listener:
    """A thread that collects the paths that watchfiles reports below some folders.

    They are hints. watchfiles may report a path without a change, under an unexpected name, or
    never: it does not say when the system's queue of events overflows, nor what happens while
    it delivers a batch.

    Attributes:
        folders: The real paths of the folders.
        error: Why it no longer listens.
    """

    def __init__(self, folders: frozenset[str], wake: Callable[[], None]) -> None:
        """Return once all further changes are reported.

        Args:
            folders: Their real paths.
            wake: Called in the thread when there are paths to take.

        Raises:
            OSError, RuntimeError, ValueError: watchfiles cannot listen.
        """
        self.folders = folders
        self.error: Exception | None = None
        self._wake = wake
        self._heard: deque[set[str]] = deque()
        self._begun = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="toolwatch", daemon=True)
        self._thread.start()
        self._begun.wait()
        if self.error is not None:
            raise self.error

    @property
    def waiting(self) -> bool:
        """Whether there are paths to take."""
        return bool(self._heard)

    def take(self) -> set[str]:
        """Return the absolute paths reported since the last call."""
        paths: set[str] = set()
        while self._heard:
            paths |= self._heard.popleft()
        return paths

    def close(self) -> None:
        """End the thread, which takes a moment."""
        self._stopped = True
        # At the end of a program, the interpreter stops such threads itself; since Python 3.13,
        # waiting for them then lasts forever.
        if not sys.is_finalizing():
            self._thread.join()

    def is_set(self) -> bool:
        """Return whether to stop; watchfiles calls this every few milliseconds."""
        self._begun.set()
        return self._stopped

    def _run(self) -> None:
        try:
            from watchfiles import watch

            hints = watch(
                *sorted(self.folders),
                watch_filter=None,
                debounce=50,
                step=10,
                stop_event=self,
                rust_timeout=5000,
                debug=False,
                raise_interrupt=False,
                force_polling=False,
                poll_delay_ms=300,
                ignore_permission_denied=False,
            )
            for changes in hints:
                self._heard.append({path for _, path in changes})
                self._wake()
        except Exception as error:  # noqa: BLE001 - a watch that ends must never end in silence
            self.error = error
        finally:
            self._begun.set()
            self._wake()
