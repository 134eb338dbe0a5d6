"""Reading the bytes of a database, without giving up the locks that this process has on it."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

import apsw

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MAGIC = b"SQLite format 3\0"
_MARK = slice(68, 72)
_BYTES = 100
# With the flags of a connection, so that SQLite gives the descriptor to the next one that opens.
_FLAGS = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0]


class _File(apsw.VFSFile):
    def close(self) -> None:
        self.xClose()


def application_id(path: Path) -> int | None:
    """Return the `application_id` of a SQLite database file, or None if it is not one.

    Read this where the file would otherwise be opened to look at it. A file's locks belong to the
    process, and closing any descriptor of it drops them all, those of SQLite's connections too:
    the next program to end would then delete the log from under them. Here SQLite itself opens
    the file, and keeps the descriptor for as long as a connection of this process has locks
    (sqlite.org/howtocorrupt.html, 2.2). Neither a log nor a journal is looked at.

    Args:
        path: A file. What is no file, a pipe for one, may be waited for.

    Raises:
        OSError: There is no such file.
        apsw.Error: It cannot be opened or read.
        ValueError: It is no path that SQLite could open.
    """
    name = os.path.realpath(path)
    # SQLite calls a file of one byte empty, and fills what is cut short with zeros.
    if os.stat(name).st_size < _BYTES:  # noqa: PTH116
        return None
    with closing(_File("", name, _FLAGS)) as file:
        start = file.xRead(_BYTES, 0)
    # Zeros at the end are cut off where the file has been cut short meanwhile.
    if not start.startswith(_MAGIC):
        return None
    return int.from_bytes(start[_MARK].ljust(4, b"\0"), "big")


def pages_of(path: Path, size: int, *, start: int) -> Iterator[bytes]:
    """Yield the whole pages of a database, from the one with an index, as `application_id` reads.

    Raises:
        OSError: There is no such file.
        apsw.Error: It cannot be opened or read.
    """
    name = os.path.realpath(path)
    count = os.stat(name).st_size // size  # noqa: PTH116
    with closing(_File("", name, _FLAGS)) as file:
        for number in range(start, count):
            yield file.xRead(size, number * size).ljust(size, b"\0")
