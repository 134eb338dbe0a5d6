"""A file beside the copy: which state of the server it holds."""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from toolindex.errors import DatabaseError

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

# The number that the server gave to an event, and the event's id.
Place = tuple[int, str | None]

_KEPT_SECONDS = 3_600.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS note (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS event (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, body TEXT NOT NULL, sent REAL
);
CREATE INDEX IF NOT EXISTS event_sent ON event (sent);
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

    Without it the copy is compared with the server once, and events of this host that have not been
    sent yet are lost to the others.

    Args:
        copy: The path of the copy.
        read_only: Keep notes in memory only.
    """

    def __init__(self, copy: str, *, read_only: bool = False) -> None:
        self._path = ":memory:" if read_only else f"{copy}-shared"
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None
        self._host: str | None = None

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

    def host(self) -> str:
        """Return what tells this copy from all others."""
        if self._host is None:
            with self._connected() as connection:
                new = json.dumps(str(uuid.uuid4()))
                connection.execute("INSERT OR IGNORE INTO note VALUES ('host', ?)", (new,))
            self._host = str(self._value("host"))
        return self._host

    def fetched(self, database: str, tree: int) -> dict[str, Place]:
        """Return up to which event the record of a tree has been fetched, by kind of event."""
        with suppress(TypeError, ValueError):
            of, *places = self._value("fetched")
            if of == [database, tree]:
                numbered = ((int(number), event) for number, event in places)
                return dict(zip(("outcomes", "searches"), numbered, strict=True))
        return {"outcomes": (0, None), "searches": (0, None)}

    def note_fetched(self, database: str, tree: int, kind: str, place: Place) -> None:
        """Note up to which event a kind has been fetched."""
        places = {**self.fetched(database, tree), kind: place}
        self._put("fetched", [[database, tree], places["outcomes"], places["searches"]])

    def add_events(self, events: Sequence[tuple[str, str]]) -> None:
        """Put events, by id, at the end of those that wait for the server."""
        with self._connected() as connection:
            connection.executemany("INSERT OR IGNORE INTO event (id, body) VALUES (?, ?)", events)

    def events(self, limit: int) -> list[tuple[str, str]]:
        """Return the first events that wait, with their ids."""
        with self._connected() as connection:
            return connection.execute(
                "SELECT id, body FROM event WHERE sent IS NULL ORDER BY number LIMIT ?", (limit,)
            ).fetchall()

    def count_events(self) -> int:
        """Count the events that wait."""
        with self._connected() as connection:
            row = connection.execute("SELECT count(*) FROM event WHERE sent IS NULL").fetchone()
        return int(row[0])

    def sent(self, ids: Sequence[str], *, server: str) -> None:
        """Note that a server has events.

        They are kept for an hour: another server that takes its place may not have got the last of
        them, so it is sent them again.
        """
        is_other = self._value("server") != server
        self._put("server", server)
        now = time.time()
        with self._connected() as connection:
            if is_other:
                connection.execute("UPDATE event SET sent = NULL")
            connection.executemany(
                "UPDATE event SET sent = ? WHERE id = ?", [(now, id_) for id_ in ids]
            )
            connection.execute(
                "DELETE FROM event WHERE sent < ? OR sent > ?",
                (now - _KEPT_SECONDS, now + _KEPT_SECONDS),
            )

    def retain_events(self, most: int) -> None:
        """Forget the oldest of the events that wait, beyond so many."""
        with self._connected() as connection:
            connection.execute(
                "DELETE FROM event WHERE sent IS NULL AND number <= (SELECT number FROM event "
                "WHERE sent IS NULL ORDER BY number DESC LIMIT 1 OFFSET ?)",
                (most,),
            )

    def clear_events(self) -> None:
        """Forget all events."""
        with self._connected() as connection:
            connection.execute("DELETE FROM event")

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
