"""A file beside the copy: which state of the server it holds."""

from __future__ import annotations

import json
import sqlite3
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from toolindex.errors import DatabaseError

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["Note", "Notes"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS note (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Which state of a tree a copy holds.

    Attributes:
        database: The database of the server; another after it was made again.
        tree: The number of the tree in it.
        generation: The state of the tree.
        copy: The state of the copy which held just that.
    """

    database: str
    tree: int
    generation: int
    copy: int


class Notes:
    """The file beside a copy, `search.db-shared`; all processes on the copy share it.

    Nothing in it is needed: without it the copy is compared with the server once.

    Args:
        copy: The path of the copy.
        read_only: Keep notes in memory only.
    """

    def __init__(self, copy: str, *, read_only: bool = False) -> None:
        self._path = ":memory:" if read_only else f"{copy}-shared"
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None

    def read(self) -> Note | None:
        """Return the note, or None where nothing is known of the copy."""
        with suppress(TypeError):
            return Note(**self._value("copy"))
        return None

    def write(self, note: Note) -> None:
        """Replace the note."""
        self._put("copy", asdict(note))

    def as_of(self) -> float | None:
        """Return when the copy was last known to be equal to the server."""
        with suppress(TypeError):
            return float(self._value("as_of"))
        return None

    def write_as_of(self, at: float) -> None:
        """Note that the copy was equal to the server then."""
        self._put("as_of", at)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _value(self, key: str) -> Any:  # noqa: ANN401 - any JSON
        with self._connected() as connection:
            row = connection.execute("SELECT value FROM note WHERE key = ?", (key,)).fetchone()
        with suppress(ValueError):
            return None if row is None else json.loads(row[0])
        return None

    def _put(self, key: str, value: object) -> None:
        with self._connected() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO note VALUES (?, ?)", (key, json.dumps(value))
            )

    @contextmanager
    def _connected(self) -> Generator[sqlite3.Connection]:
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._opened()
                with self._connection:
                    yield self._connection
            except sqlite3.Error as error:
                raise DatabaseError(self._path, str(error)) from error

    def _opened(self) -> sqlite3.Connection:
        try:
            return self._connect()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            # It is damaged, and nothing in it is needed.
            for suffix in ("", "-wal", "-shm"):
                Path(self._path + suffix).unlink(missing_ok=True)
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, check_same_thread=False)
        try:
            # A note that a crash loses costs a comparison.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.executescript(_SCHEMA)
        except BaseException:
            connection.close()
            raise
        return connection
