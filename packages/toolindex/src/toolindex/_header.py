"""Reading the bytes of a database without losing this process's locks on it."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

import apsw

if TYPE_CHECKING:
    from pathlib import Path

_MAGIC = b"SQLite format 3\0"
_MARK = slice(68, 72)
_BYTES = 100
# With the flags of a connection, so that SQLite reuses the descriptor for the next one.
_FLAGS = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0]


class _File(apsw.VFSFile):
    def close(self) -> None:
        self.xClose()


def application_id(path: Path) -> int | None:
    """Return the `application_id` of a SQLite database file, or None if it is not one.

    Use this instead of opening the file. A file's locks belong to the process, and closing any
    descriptor of the file drops them all, including those of SQLite's connections: the next program
    to end would then delete the log that they are using. Here SQLite itself opens the file, and
    keeps the descriptor as long as a connection of this process has locks
    (sqlite.org/howtocorrupt.html, 2.2). Logs and journals are not read.

    Args:
        path: The file. Opening something else, such as a pipe, may block.

    Raises:
        OSError: There is no such file.
        apsw.Error: It cannot be opened or read.
        ValueError: SQLite cannot open such a path.
    """
    name = os.path.realpath(path)
    # SQLite treats a file of one byte as empty, and fills short reads with zeros.
    if os.stat(name).st_size < _BYTES:  # noqa: PTH116
        return None
    with closing(_File("", name, _FLAGS)) as file:
        start = file.xRead(_BYTES, 0)
    # If the file was truncated in the meantime, trailing zeros are dropped.
    if not start.startswith(_MAGIC):
        return None
    return int.from_bytes(start[_MARK].ljust(4, b"\0"), "big")
