"""Replacing a damaged file, which is renamed, and recovering what can still be read from it."""

from __future__ import annotations

import struct
from contextlib import closing, suppress
from math import hypot
from typing import TYPE_CHECKING, Any

import apsw

from toolindex._damage import is_damaged
from toolindex._first_page import with_new_first_page
from toolindex._header import application_id
from toolindex._opening import BUSY_TIMEOUT_MS, make_kept, open_connection, translated
from toolindex._parts import FORMER_ID, PARTS, beside, kept_path
from toolindex._usage_records import to_outcome, to_search
from toolindex.errors import DatabaseError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_TABLES = {
    "embeddings": "text_hash, model_id, vector, stored_at",
    "refusals": "model_id, text_hash, reason, at, times",
    "query_embeddings": "model_id, query_hash, used_at, vector",
    "searches": "id, at, query, mode, parameters, results, latency_ms, degraded",
    "outcomes": "rowid, at, tool_id, success, latency_ms, search_id",
}
# The indexes of this table have all of its columns.
_OUTCOMES_FROM_INDEXES = """
WITH a AS MATERIALIZED (SELECT rowid AS n, at FROM outcomes INDEXED BY outcomes_by_time),
b AS MATERIALIZED (
    SELECT rowid AS n, tool_id, success, latency_ms FROM outcomes INDEXED BY outcomes_by_tool
),
c AS MATERIALIZED (SELECT rowid AS n, search_id FROM outcomes INDEXED BY outcomes_by_search)
SELECT n, at, tool_id, success, latency_ms, search_id FROM a JOIN b USING (n) JOIN c USING (n)
"""
_UNIT_ERROR = 1e-3
# Ignoring these would lose data that another attempt could recover.
_PASSING = (apsw.CantOpenError, apsw.NoMemError, apsw.BusyError, apsw.LockedError)
_UNWRITABLE = (*_PASSING, apsw.FullError, apsw.IOError, apsw.ReadOnlyError)


def renew(index: Path, *, suspect: Path) -> Path:
    """Replace the damaged one of the two files.

    Irreplaceable data is copied to a new file before the damaged one is renamed: a kill at any
    moment leaves one of them, and `finish_renewal` completes the work. The caller holds the lease
    for creating files.

    Args:
        index: The index.
        suspect: The file to set aside if neither is found to be damaged.

    Returns:
        The damaged file's new name, such as `search.db.corrupt-20261122T101500`.

    Raises:
        DatabaseError: It cannot be renamed, or a new one cannot be created.
    """
    damaged = [part.path(index) for part in PARTS if is_damaged(index, part)]
    kept, aside = kept_path(index), index
    for file in sorted(damaged or [suspect], key=lambda file: file != kept):
        try:
            if file == kept:
                for old in (_new(kept), *beside(_new(kept))):
                    old.unlink(missing_ok=True)
                _rescue(kept, into=_new(kept))
                aside = _set_aside(kept)
                finish_renewal(index)
            else:
                # In early development versions, one file has everything.
                _rescue(index, into=kept)
                aside = _set_aside(index)
        except OSError as error:
            raise DatabaseError(file, f"is damaged, and cannot be renamed ({error})") from error
    open_connection(index, read_only=False, creates=True).connection.close()
    return aside


def finish_renewal(index: Path) -> None:
    """Move a recovered file to its place, if a kill prevented that."""
    for file in (part.path(index) for part in PARTS):
        try:
            if not file.exists():
                _new(file).replace(file)
        except FileNotFoundError:
            pass
        except OSError as error:
            reason = f"cannot be created there ({error.strerror}); choose another path"
            raise DatabaseError(file, reason) from error


def take_over(connection: apsw.Connection, damaged: Path) -> int:
    """Copy the vectors and usage records that can still be read from a damaged file.

    The connection is to the new file, inside a write transaction. Return the number of copied rows.

    Raises:
        apsw.Error: The damaged file cannot be opened, or the new one cannot be written.
    """
    before = connection.total_changes()
    with closing(_opened(damaged)) as source:
        for table, columns in _TABLES.items():
            marks = ", ".join("?" for _ in columns.split(", "))
            insert = f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})"  # noqa: S608
            for row in _readable(source, columns, table):
                if _is_whole(table, row):
                    _try_inserting(connection, insert, row)
    return connection.total_changes() - before


def _rescue(damaged: Path, *, into: Path) -> None:
    try:
        connection = make_kept(into)
        with closing(connection), connection:
            try:
                take_over(connection, damaged)
                if into == _new(damaged):  # Not for the index, which has another layout.
                    with with_new_first_page(damaged) as copy:
                        take_over(connection, copy)
            except apsw.Error as error:
                # Checked while the new file is open: closing it would free the missing file
                # descriptors.
                raise translated(damaged, error, is_open=True) from error
    except apsw.Error as error:
        raise translated(into, error) from error


def _set_aside(file: Path) -> Path:
    aside = _name_aside(file)
    file.rename(aside)
    for old, new in zip(beside(file), beside(aside), strict=True):
        with suppress(FileNotFoundError):
            old.rename(new)
    return aside


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
        pass  # The row is damaged like the page that it is on.


def _readable(
    connection: apsw.Connection, columns: str, table: str
) -> Iterator[tuple[apsw.SQLiteValue, ...]]:
    statements = [
        f"SELECT {columns} FROM {table}",  # noqa: S608 - constants
        # Rows after a damaged page are still found from the other end.
        f"SELECT {columns} FROM {table} ORDER BY rowid DESC",  # noqa: S608
    ]
    if table == "outcomes":
        statements.append(_OUTCOMES_FROM_INDEXES)
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
    # Of an early version, it is not damaged.
    why = "corrupt"
    with suppress(OSError, ValueError, apsw.Error):
        why = "old" if application_id(path) == FORMER_ID else why
    aside = path.with_name(f"{path.name}.{why}-{stamp}")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.{why}-{stamp}-{number}")
    return aside


def _is_whole(table: str, row: tuple[Any, ...]) -> bool:
    """Return whether a row seems to be as it was written."""
    values = dict(zip(_TABLES[table].split(", "), row, strict=True))
    try:
        match table:
            case "embeddings" | "query_embeddings":
                return _is_vector(values["vector"])
            case "searches":
                to_search(*row)
            case "outcomes":
                to_outcome(*row[1:])
            case _:
                pass
    except (ValueError, TypeError, UsageError):
        return False
    return True


def _is_vector(blob: object) -> bool:
    if not isinstance(blob, bytes) or not blob or len(blob) % 4:
        return False
    length = hypot(*struct.unpack(f"<{len(blob) // 4}f", blob))
    return abs(length - 1) < _UNIT_ERROR
