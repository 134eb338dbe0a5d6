"""Linux's own notifications, without a layer in between that hides a lost event.

The queue of events has a limit, and so has the number of folders that can be watched. Both are
reported by the kernel, and both have to reach the consumer of a watch: hence this binding.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from contextlib import suppress
from enum import IntFlag
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Event", "Inotify", "Mask", "has_inotify"]

_HEADER = struct.Struct("iIII")
_BUFFER = 1 << 16
_READS = 64
"""How often the queue is read in a row, so that a writer without end holds nobody up."""


class Mask(IntFlag):
    """The kinds of events; the values are those of the kernel's interface (inotify(7))."""

    MODIFY = 0x2
    ATTRIB = 0x4
    CLOSE_WRITE = 0x8
    MOVED_FROM = 0x40
    MOVED_TO = 0x80
    CREATE = 0x100
    DELETE = 0x200
    DELETE_SELF = 0x400
    MOVE_SELF = 0x800
    UNMOUNT = 0x2000
    OVERFLOW = 0x4000
    IGNORED = 0x8000
    ONLYDIR = 0x1000000
    ISDIR = 0x40000000


# A file that was written through a memory map gives no event but the one of its closing.
_WATCHED = int(
    Mask.MODIFY
    | Mask.ATTRIB
    | Mask.CLOSE_WRITE
    | Mask.MOVED_FROM
    | Mask.MOVED_TO
    | Mask.CREATE
    | Mask.DELETE
    | Mask.DELETE_SELF
    | Mask.MOVE_SELF
    | Mask.ONLYDIR
)


class Event(NamedTuple):
    """One event, as the kernel tells it.

    Attributes:
        watch: The number that `Inotify.add` gave; -1 for an overflow.
        mask: What happened, as bits of `Mask`.
        name: The entry of the folder that is meant; empty for the folder itself.
    """

    watch: int
    mask: int
    name: str


def has_inotify() -> bool:
    """Tell whether this system is one that has inotify at all."""
    return sys.platform == "linux"


class Inotify:
    """A queue of events about the folders that are added to it.

    Folders are told apart by what they are, not by name: adding one again, by whatever path,
    gives the same number.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = _checked(
            self._libc.inotify_init1, ctypes.c_int(os.O_NONBLOCK | os.O_CLOEXEC), path=None
        )

    def fileno(self) -> int:
        """Give the descriptor that is readable while events wait."""
        return self._fd

    def add(self, path: str) -> int:
        """Watch the entries of a folder, following a link to it.

        Raises:
            OSError: There is no such folder, or it cannot be read, or (`ENOSPC`) the limit on
                the number of watched folders is reached.
        """
        return _checked(
            self._libc.inotify_add_watch,
            ctypes.c_int(self._fd),
            ctypes.c_char_p(os.fsencode(path)),
            ctypes.c_uint32(_WATCHED),
            path=path,
        )

    def remove(self, watch: int) -> None:
        """Stop watching a folder; the kernel may have done so already."""
        self._libc.inotify_rm_watch(ctypes.c_int(self._fd), ctypes.c_int(watch))

    def read(self) -> Iterator[Event]:
        """Give the events that wait, without waiting for any."""
        with suppress(BlockingIOError):
            for _ in range(_READS):
                data = os.read(self._fd, _BUFFER)
                start = 0
                while start < len(data):
                    watch, mask, _, size = _HEADER.unpack_from(data, start)
                    start += _HEADER.size + size
                    name = data[start - size : start].rstrip(b"\0")
                    yield Event(watch, mask, os.fsdecode(name))

    def close(self) -> None:
        """End all watches."""
        os.close(self._fd)


def _checked(function: Callable[..., int], *arguments: object, path: str | None) -> int:
    result = function(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return result
