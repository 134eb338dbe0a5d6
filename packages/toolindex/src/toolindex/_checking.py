"""Checking an index for inconsistencies, and rebuilding the search tables."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

import apsw

from toolindex._meta import bump_generation, forget_reader
from toolindex._rows import ENTRY_COLUMNS, UnreadableRowError, to_entry
from toolindex._vectors import (
    begin_renewal,
    durable_id,
    durable_vectors,
    fill,
    vector_tables,
    vectors_changed,
    writable_tables,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolindex._vectors import VectorTable

_FTS = "entries_fts"
_TEXTS = (
    *("source", "category", "name", "name_words", "category_words", "parameter_words"),
    *("tag_words", "segments", "name_key", "qualified_key", "file_hash", "text_hash"),
    "alias_words",
)
_NUMBERS = ("indexed_at", "size", "mtime_ns", "ctime_ns", "inode")


def is_sound(connection: apsw.Connection, schema: str) -> bool:
    return bool(connection.execute(f"PRAGMA {schema}.integrity_check(1)").get == "ok")


def disagreements(connection: apsw.Connection) -> tuple[str, ...]:
    """Describe unreadable rows, and where the search tables differ from the entries and vectors."""
    found = [f"{name} cannot be read: {reason}" for *_, name, reason in _unreadable(connection)]
    try:
        # With this rank, it also compares the table with the entries.
        connection.execute(f"INSERT INTO {_FTS} ({_FTS}, rank) VALUES ('integrity-check', 1)")  # noqa: S608
    except (apsw.CorruptError, apsw.SQLError):
        found.append("the full-text table does not match the tools")
    for table in vector_tables(connection):
        found += _of_vectors(connection, table)
    return tuple(found)


def rebuild(connection: apsw.Connection, *, forget: str | None = None) -> None:
    """Rebuild the search tables from the entries and the stored vectors, without unreadable rows.

    The next scan reads all files again. The usage record is kept. The model `forget` has to embed
    all texts again; its vectors are used until then.
    """
    for table, rowid, *_ in list(_unreadable(connection)):
        connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (rowid,))  # noqa: S608
    connection.execute(f"INSERT INTO {_FTS} ({_FTS}) VALUES ('rebuild')")  # noqa: S608
    tables = writable_tables(connection)
    for table in tables:
        # What is recorded of its rows may be wrong, too.
        connection.execute(f"DELETE FROM {table.name}")  # noqa: S608 - our own name
        connection.execute("DELETE FROM vector_rows WHERE vec_table = ?", (table.name,))
    if forget is not None:
        begin_renewal(connection, durable_id(connection, forget))
        connection.execute("DELETE FROM refusals WHERE model_id = ?", (forget,))
    for table in tables:
        fill(connection, table)
    vectors_changed(connection)
    forget_reader(connection)
    bump_generation(connection)


def _unreadable(connection: apsw.Connection) -> Iterator[tuple[str, int, str, str]]:
    """Yield the table, rowid, display name and problem of each row with an invalid value."""
    columns = ", ".join(f"typeof({column})" for column in (*_TEXTS, *_NUMBERS))
    for rowid, own_id, *row in connection.execute(
        "SELECT rowid, source || ':' || category || ':' || name, "  # noqa: S608 - constants
        f"{columns}, {ENTRY_COLUMNS} FROM entries"
    ):
        types, values = row[: len(_TEXTS) + len(_NUMBERS)], row[len(_TEXTS) + len(_NUMBERS) :]
        try:
            if (entry := to_entry(values)) and str(entry.id) != own_id:
                raise UnreadableRowError("id")
            for column, kind in zip((*_TEXTS, *_NUMBERS), types, strict=True):
                if kind not in ({"text"} if column in _TEXTS else {"integer", "real", "null"}):
                    raise UnreadableRowError(column)
        except UnreadableRowError as error:
            yield "entries", rowid, str(values[0]), str(error)
    for rowid, model, text_hash, kind, vector in connection.execute(
        # A vector that became text cannot be read without the cast.
        "SELECT rowid, model_id, text_hash, typeof(vector), CAST(vector AS BLOB) FROM embeddings"
    ):
        if kind != "blob" or not _is_vector(vector):
            name = f"the vector of {model} for text {str(text_hash)[:12]}"
            yield "embeddings", rowid, name, "it is not a finite vector"


def _is_vector(value: bytes) -> bool:
    if len(value) % 4:
        return False
    length = math.hypot(*struct.unpack(f"<{len(value) // 4}f", value))
    return bool(length) and math.isfinite(length)


def _of_vectors(connection: apsw.Connection, table: VectorTable) -> list[str]:
    rows = f"SELECT entry FROM vector_rows WHERE vec_table = '{table.name}'"  # noqa: S608
    select, values = durable_vectors(table.model_id, table.dimensions)
    stored = f"WITH stored (row, vector) AS ({select})"
    counts = {
        "tools have no stored vector": (
            f"{stored} SELECT count(*) FROM stored "  # noqa: S608 - our own names
            f"WHERE row NOT IN (SELECT rowid FROM {table.name} INTERSECT {rows})"
        ),
        "tools have a different vector than the stored one": (
            f"{stored} SELECT count(*) FROM stored JOIN {table.name} AS t ON t.rowid = row "  # noqa: S608
            "WHERE t.embedding <> vector"
        ),
        "vectors belong to no tool": (
            f"SELECT count(*) FROM (SELECT rowid AS row FROM {table.name} UNION {rows}) "  # noqa: S608
            "WHERE row NOT IN (SELECT rowid FROM entries)"
        ),
    }
    return [
        f"{count} {what} ({table.model_id})"
        for what, sql in counts.items()
        if (count := connection.execute(sql, values if sql.startswith(stored) else ()).get)
    ]
