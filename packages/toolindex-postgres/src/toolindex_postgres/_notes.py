"""A file beside the copy that records its state of the server."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from toolindex import DatabaseError

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

_KEPT_SECONDS = 3_600.0
# How long to wait for another process that is writing the file.
_BUSY_SECONDS = 5.0
_RETRY_SECONDS = 0.005
_SCHEMA = """
CREATE TABLE IF NOT EXISTS note (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS event (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, body TEXT NOT NULL, sent REAL
);
CREATE INDEX IF NOT EXISTS event_sent ON event (sent);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A copy's state of a tree.

    Attributes:
        database: The id of the server's database; it differs after the database was created again.
        tree: The number of the tree in it.
        generation: The state of the tree.
        copy: The state of the copy at that time.
        left_out: The reasons why rows of the tree cannot be read, by display name.
    """

    database: str
    tree: int
    generation: int
    copy: int
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])


class Notes:
    """The file beside a copy, `search.db-shared`; all processes on the copy share it.

    If it is missing, the copy is compared with the server once, and other hosts never get this
    host's unsent events.

    Args:
        copy: The path of the copy.
        read_only: Keep notes in memory only.
    """

    def __init__(self, copy: str, *, read_only: bool = False) -> None:
        self._path = ":memory:" if read_only else f"{copy}-shared"
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None
        self._host: str | None = None

    def get(self, key: str) -> Any:  # noqa: ANN401 - any JSON
        with self._connected() as connection:
            return _value(connection, key)

    def put(self, key: str, value: object) -> None:
        with self._connected() as connection:
            _put(connection, key, value)

    def state(self) -> Note | None:
        with suppress(TypeError):
            return Note(**self.get("copy"))
        return None

    def put_state(self, note: Note | None) -> None:
        self.put("copy", None if note is None else asdict(note))

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def host(self) -> str:
        if self._host is None:
            import uuid  # It takes long, and a search needs none.

            with self._connected() as connection:
                new = json.dumps(str(uuid.uuid4()))
                connection.execute("INSERT OR IGNORE INTO note VALUES ('host', ?)", (new,))
            self._host = str(self.get("host"))
        return self._host

    def fetched(self, kind: str, database: str, tree: int) -> tuple[int, str | None]:
        """Return the number and id of the last event of a kind that was fetched of a tree."""
        with suppress(TypeError, ValueError):
            of, number, event = self.get(f"fetched {kind}")
            if of == [database, tree]:
                return int(number), event
        return 0, None

    def add_events(self, events: Sequence[tuple[str, str]]) -> None:
        with self._connected() as connection:
            connection.executemany("INSERT OR IGNORE INTO event (id, body) VALUES (?, ?)", events)

    def events(self, *, most: int, most_bytes: int) -> list[tuple[str, str]]:
        """Return the first waiting events, with their ids: at least one, if there is one."""
        found: list[tuple[str, str]] = []
        with self._connected() as connection:
            for id_, body in connection.execute(
                "SELECT id, body FROM event WHERE sent IS NULL ORDER BY number LIMIT ?", (most,)
            ):
                most_bytes -= len(body)
                if found and most_bytes < 0:
                    break
                found.append((id_, body))
        return found

    def count_events(self) -> int:
        with self._connected() as connection:
            row = connection.execute("SELECT count(*) FROM event WHERE sent IS NULL").fetchone()
        return int(row[0])

    def sent(self, ids: Sequence[str], *, server: str) -> None:
        """Record that a server has events.

        They are kept for an hour, and sent again to a server that replaces it, which may not have
        received the last of them.
        """
        now = time.time()
        with self._connected() as connection:
            if _value(connection, "server") != server:
                _put(connection, "server", server)
                connection.execute("UPDATE event SET sent = NULL")
            connection.executemany(
                "UPDATE event SET sent = ? WHERE id = ?", [(now, id_) for id_ in ids]
            )
            connection.execute(
                "DELETE FROM event WHERE sent < ? OR sent > ?",
                (now - _KEPT_SECONDS, now + _KEPT_SECONDS),
            )

    def retain_events(self, most: int) -> None:
        with self._connected() as connection:
            connection.execute(
                "DELETE FROM event WHERE sent IS NULL AND number <= (SELECT number FROM event "
                "WHERE sent IS NULL ORDER BY number DESC LIMIT 1 OFFSET ?)",
                (most,),
            )

    def clear_events(self) -> None:
        with self._connected() as connection:
            connection.execute("DELETE FROM event")

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
            # The file is damaged; searches do not need its contents.
            for suffix in ("", "-wal", "-shm"):
                Path(self._path + suffix).unlink(missing_ok=True)
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, check_same_thread=False)
        try:
            # If a crash loses a note, the copy is compared once more.
            _switch_to_wal(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.executescript(_SCHEMA)
        except BaseException:
            connection.close()
            raise
        return connection


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    # While another process creates the file, SQLite refuses this without waiting.
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # The upper bits say what exactly is busy.
            is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


def _value(connection: sqlite3.Connection, key: str) -> Any:  # noqa: ANN401 - any JSON
    row = connection.execute("SELECT value FROM note WHERE key = ?", (key,)).fetchone()
    with suppress(ValueError):
        return None if row is None else json.loads(row[0])
    return None


def _put(connection: sqlite3.Connection, key: str, value: object) -> None:
    connection.execute("INSERT OR REPLACE INTO note VALUES (?, ?)", (key, json.dumps(value)))
