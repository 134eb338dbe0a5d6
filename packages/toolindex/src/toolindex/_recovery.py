"""A damaged database: kept under another name, and what can still be read of it taken over."""

from __future__ import annotations

import struct
from contextlib import closing, suppress
from datetime import UTC, datetime
from math import hypot
from typing import TYPE_CHECKING

import apsw

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["set_aside", "take_over"]

_TABLES = {
    "embeddings": "text_hash, model_id, vector, stored_at",
    "searches": "id, at, query, mode, parameters, results, latency_ms, degraded",
    "outcomes": "rowid, at, tool_id, success, latency_ms, search_id",
}
_UNIT_ERROR = 1e-3


def set_aside(path: Path) -> Path:
    """Rename a database, with its log, so that another can take its place.

    Returns:
        The new name: `search.db.corrupt-20261122T101500`.
    """
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    aside = path.with_name(f"{path.name}.corrupt-{stamp}")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.corrupt-{stamp}-{number}")
    path.rename(aside)
    for suffix in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    return aside


def take_over(connection: apsw.Connection, aside: Path) -> int:
    """Copy the vectors and the usage record that can still be read of a damaged database.

    Vectors were paid for; the rest of the index is made again from the files.

    Args:
        connection: A connection to the new database, inside a write transaction.
        aside: The damaged one. It is only read.

    Returns:
        How many rows were taken over.
    """
    before = connection.total_changes()
    with suppress(apsw.Error), closing(_opened(aside)) as damaged:
        for table, columns in _TABLES.items():
            marks = ", ".join("?" for _ in columns.split(", "))
            insert = f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})"  # noqa: S608
            for row in _readable(damaged, f"SELECT {columns} FROM {table}"):  # noqa: S608
                if table != "embeddings" or _is_vector(row[2]):
                    with suppress(apsw.Error):
                        connection.execute(insert, row)
    connection.execute(
        "INSERT OR IGNORE INTO models (model_id, dimensions, used_at) "
        "SELECT model_id, length(vector) / 4, 0 FROM embeddings GROUP BY model_id"
    )
    return connection.total_changes() - before


def _opened(path: Path) -> apsw.Connection:
    return apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)


def _readable(connection: apsw.Connection, select: str) -> Iterator[tuple[apsw.SQLiteValue, ...]]:
    try:
        yield from connection.execute(f"{select} ORDER BY rowid")
    except (apsw.Error, UnicodeDecodeError):
        # What lies behind a broken page is still found from the other side.
        with suppress(apsw.Error, UnicodeDecodeError):
            yield from connection.execute(f"{select} ORDER BY rowid DESC")


def _is_vector(blob: object) -> bool:
    if not isinstance(blob, bytes) or not blob or len(blob) % 4:
        return False
    length = hypot(*struct.unpack(f"<{len(blob) // 4}f", blob))
    return abs(length - 1) < _UNIT_ERROR
