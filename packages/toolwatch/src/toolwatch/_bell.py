"""Waking a thread that waits for notifications."""

from __future__ import annotations

import socket
from contextlib import suppress

__all__ = ["Bell"]


class Bell:
    """A pair of connected sockets: what is rung at one end can be waited for at the other.

    Sockets are the one thing that can be waited for together with notifications on every system.
    """

    def __init__(self) -> None:
        self._ear, self._mouth = socket.socketpair()
        self._ear.setblocking(False)
        self._mouth.setblocking(False)

    def fileno(self) -> int:
        """Give the descriptor that is readable once the bell was rung."""
        return self._ear.fileno()

    def ring(self) -> None:
        """Wake the one who waits, from any thread."""
        # What is full wakes as well, and what is closed has nobody to wake.
        with suppress(OSError):
            self._mouth.send(b"\0")

    def hush(self) -> None:
        """Forget that the bell was rung."""
        with suppress(BlockingIOError):
            self._ear.recv(4096)

    def close(self) -> None:
        """Give the sockets back."""
        self._ear.close()
        self._mouth.close()
