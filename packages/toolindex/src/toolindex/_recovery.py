"""A damaged database: kept under another name, and what can still be read of it taken over."""

from __future__ import annotations

import struct
from contextlib import closing, suppress
from math import hypot
from typing import TYPE_CHECKING

import apsw

from toolindex._opening import BUSY_TIMEOUT_MS, open_connection, translated
from toolindex.errors import DatabaseError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["finish_renewal", "renew", "take_over"]

_TABLES = {
    "embeddings": "text_hash, model_id, vector, stored_at",
    "refusals": "model_id, text_hash, reason, at, times",
    "searches": "id, at, query, mode, parameters, results, latency_ms, degraded",
    "outcomes": "rowid, at, tool_id, success, latency_ms, search_id",
}
_UNIT_ERROR = 1e-3
# Whoever goes on after these loses what a second try would take over.
_PASSING = (apsw.CantOpenError, apsw.NoMemError, apsw.BusyError, apsw.LockedError)
_UNWRITABLE = (*_PASSING, apsw.FullError, apsw.IOError, apsw.ReadOnlyError)


def renew(path: Path) -> Path:
    """Put a new database, with what can be read of the damaged one, in its place.

    The new one is complete before the damaged one is renamed: a kill at any moment leaves one of
    the two, and `finish_renewal` completes what is left to be done. Whoever calls holds the lease
    under which databases are made.

    Returns:
        The damaged one's new name: `search.db.corrupt-20261122T101500`.

    Raises:
        DatabaseError: It cannot be renamed, or no other can be made.
    """
    new, aside = _new(path), _name_aside(path)
    try:
        for file in (new, *_beside(new)):
            file.unlink(missing_ok=True)
        connection = open_connection(new, read_only=False).connection
        with closing(connection), connection:
            try:
                take_over(connection, path)
            except apsw.Error as error:
                # Told while the new one is open: closed, it gives back the files that are lacking.
                raise translated(path, error, is_open=True) from error
        path.rename(aside)
        for old, kept in zip(_beside(path), _beside(aside), strict=True):
            with suppress(FileNotFoundError):
                old.rename(kept)
        finish_renewal(path)
    except OSError as error:
        raise DatabaseError(path, f"is damaged, and cannot be set aside ({error})") from error
    except apsw.Error as error:
        raise translated(new, error) from error
    return aside


def finish_renewal(path: Path) -> None:
    """Move a database that was made anew to its place, if a kill has kept it from there.

    Raises:
        DatabaseError: Nothing can be made where it is to be.
    """
    try:
        _new(path).replace(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        reason = f"cannot be made there ({error.strerror}); choose another path"
        raise DatabaseError(path, reason) from error


def take_over(connection: apsw.Connection, damaged: Path) -> int:
    """Copy the vectors and the usage record that can still be read of a damaged database.

    Vectors were paid for; the rest of the index is made again from the files.

    Args:
        connection: A connection to the new database, inside a write transaction.
        damaged: The damaged one. It is only read.

    Returns:
        How many rows were taken over.

    Raises:
        apsw.Error: The damaged one cannot be opened, or the new one cannot be written.
    """
    before = connection.total_changes()
    with closing(_opened(damaged)) as source:
        for table, columns in _TABLES.items():
            marks = ", ".join("?" for _ in columns.split(", "))
            insert = f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})"  # noqa: S608
            for row in _readable(source, columns, table):
                if table != "embeddings" or _is_vector(row[2]):
                    _try_inserting(connection, insert, row)
    connection.execute(
        "INSERT OR IGNORE INTO models (model_id, dimensions, used_at) "
        "SELECT model_id, length(vector) / 4, 0 FROM embeddings GROUP BY model_id"
    )
    return connection.total_changes() - before


def _opened(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    return connection


def _try_inserting(
    connection: apsw.Connection, insert: str, row: tuple[apsw.SQLiteValue, ...]
) -> None:
    try:
        connection.execute(insert, row)
    except _UNWRITABLE:
        raise
    except apsw.Error:
        pass  # The row is as damaged as the page that it came from.


def _readable(
    connection: apsw.Connection, columns: str, table: str
) -> Iterator[tuple[apsw.SQLiteValue, ...]]:
    statements = (
        f"SELECT {columns} FROM {table}",  # noqa: S608 - constants
        # What lies behind a broken page is still found from the other side; and version 1 did
        # not keep when a vector was stored.
        f"SELECT {columns} FROM {table} ORDER BY rowid DESC",  # noqa: S608
        f"SELECT {columns.replace('stored_at', '0')} FROM {table}",  # noqa: S608
    )
    for statement in statements:
        try:
            yield from connection.execute(statement)
        except _PASSING:
            raise
        except (apsw.Error, UnicodeDecodeError):
            continue
        return


def _new(path: Path) -> Path:
    return path.with_name(f"{path.name}.new")


def _name_aside(path: Path) -> Path:
    from datetime import UTC, datetime

    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    aside = path.with_name(f"{path.name}.corrupt-{stamp}")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.corrupt-{stamp}-{number}")
    return aside


def _beside(path: Path) -> tuple[Path, Path]:
    return path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")


def _is_vector(blob: object) -> bool:
    if not isinstance(blob, bytes) or not blob or len(blob) % 4:
        return False
    length = hypot(*struct.unpack(f"<{len(blob) // 4}f", blob))
    return abs(length - 1) < _UNIT_ERROR
