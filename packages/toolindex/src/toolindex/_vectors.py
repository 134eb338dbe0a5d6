"""Vectors: validated on entry, durable by text and model, searchable for every model in use."""

from __future__ import annotations

import json
import math
import re
import struct
import time
from array import array
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import apsw

from toolindex._errors import VectorError
from toolindex._meta import (
    bump,
    bump_generation,
    counter,
    get_meta,
    get_number,
    is_numbered,
    set_meta,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

VEC_TABLE = "entries_vec"
MAX_DIMENSIONS = 8_192
"""The maximum length of vectors in sqlite-vec."""
_CHUNK_ROWS = 256
_SPARE_ROWS = 8 * _CHUNK_ROWS
_STORED = "ON v.model_id = ? AND v.text_hash = e.text_hash AND length(v.vector) = ?"
_UNUSED_SECONDS = 30 * 24 * 3600.0
# How often the use of a model is recorded: otherwise every start would write.
_NOTED_SECONDS = 24 * 3600.0
# While all texts are embedded again, a mark says from when on vectors count as new, and old ones
# stay in use. They are replaced one by one, and deleted only when all are: after a kill it is still
# known which texts are left.
_RENEWAL = "renewed since "
# The change counter of vectors.
_VECTORS = "vectors"


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorTable:
    """The table in which the vectors of a model are searched.

    Attributes:
        name: The vec0 table; its rowids are those of `entries`, its column is `embedding`.
        model_id: The model.
        dimensions: The length of its vectors.
    """

    name: str
    model_id: str
    dimensions: int

    @property
    def vectors(self) -> str:
        return f"SELECT rowid, embedding FROM {self.name}"  # noqa: S608

    @property
    def versions(self) -> str:
        """A SELECT of the rowid of each row, and of a number that is new when its vector is."""
        return f"SELECT entry, version FROM vector_rows WHERE vec_table = '{self.name}'"  # noqa: S608


def to_blob(vector: Sequence[float], *, model_id: str, dimensions: int) -> bytes:
    """Validate and normalize a vector, and convert it to the database's format.

    Returns:
        Little-endian float32.

    Raises:
        VectorError: The number of dimensions is wrong or too large, a value is not finite in single
            precision, or all are zero.
    """
    if len(vector) != dimensions:
        raise VectorError(
            model_id, f"gave a vector of {len(vector)} dimensions where {dimensions} were expected"
        )
    check_dimensions(model_id, dimensions)
    # In single precision, as in searches, a double may become zero or infinite.
    length = math.hypot(*array("f", vector))
    if not math.isfinite(length):
        raise VectorError(model_id, "gave a vector with a value that is not finite")
    if length == 0:
        raise VectorError(model_id, "gave a vector of zeros, which has no direction")
    return struct.pack(f"<{dimensions}f", *(value / length for value in vector))


def check_dimensions(model_id: str, dimensions: int | None) -> None:
    """Raise `VectorError` if vectors of a length are too long for sqlite-vec."""
    if dimensions is not None and dimensions > MAX_DIMENSIONS:
        raise VectorError(
            model_id,
            f"gives vectors of {dimensions:,} dimensions, but an index allows at most "
            f"{MAX_DIMENSIONS:,}; choose fewer if the model supports it, or another model",
        )


def vector_tables(connection: apsw.Connection) -> list[VectorTable]:
    """Return the existing vector tables; none if sqlite-vec cannot be loaded."""
    if not has_sqlite_vec(connection):
        return []
    rows = connection.execute(
        # A table of another name is not searched, and is replaced when the model is next used.
        "SELECT vec_table, model_id, dimensions FROM models JOIN sqlite_schema ON name = vec_table "
        "WHERE typeof(dimensions) = 'integer'"
    )
    return [VectorTable(name=row[0], model_id=row[1], dimensions=row[2]) for row in rows]


def writable_tables(connection: apsw.Connection) -> list[VectorTable]:
    """Return the vector tables that have to be updated with a change of entries or vectors.

    Without sqlite-vec that is impossible: they are abandoned, and `use_model` creates new ones once
    the extension can be loaded.
    """
    if not has_sqlite_vec(connection):
        connection.execute("UPDATE models SET vec_table = NULL WHERE vec_table IS NOT NULL")
    return vector_tables(connection)


def vector_table(connection: apsw.Connection, model_id: str) -> VectorTable | None:
    """Return the table in which a model's vectors are searched, or None if there is none."""
    tables = vector_tables(connection)
    return next((table for table in tables if table.model_id == model_id), None)


def durable_vectors(model_id: str, dimensions: int) -> tuple[str, tuple[str, int]]:
    """Return a SELECT of the rowid and the durable vector of each entry, with its parameters."""
    # CROSS keeps SQLite from reading all vectors where a few entries are asked for.
    sql = f"SELECT e.rowid, v.vector FROM entries AS e CROSS JOIN embeddings AS v {_STORED}"  # noqa: S608
    return sql, (model_id, 4 * dimensions)


def is_in_use(connection: apsw.Connection, model_id: str) -> bool:
    """Return whether a model has a table, if possible, and its use was recorded in the last day."""
    since = time.time() - _NOTED_SECONDS
    sql = "SELECT 1 FROM models WHERE model_id = ? AND used_at > ?"
    is_noted = connection.execute(sql, (model_id, since)).get is not None
    return is_noted and (
        vector_table(connection, model_id) is not None or not has_sqlite_vec(connection)
    )


def use_model(connection: apsw.Connection, model_id: str, dimensions: int) -> None:
    """Copy the durable vectors of a model to a table, if one can be created.

    Models that were not used for a month have no table; their vectors are durable, so using them
    again needs no embedding.
    """
    now = time.time()
    # The last use must be the latest, even if the clock was set back.
    latest = connection.execute("SELECT max(used_at) FROM models").get or 0.0
    connection.execute(
        "INSERT INTO models (model_id, dimensions, used_at) VALUES (?, ?, ?) "
        "ON CONFLICT (model_id) DO UPDATE SET used_at = excluded.used_at, "
        "vec_table = CASE WHEN dimensions = excluded.dimensions THEN vec_table END, "
        "dimensions = excluded.dimensions",
        (model_id, dimensions, max(now, math.nextafter(latest, math.inf))),
    )
    if not has_sqlite_vec(connection):
        return
    connection.execute(
        "UPDATE models SET vec_table = NULL WHERE used_at < ?", (now - _UNUSED_SECONDS,)
    )
    _drop_unused(connection)
    if vector_table(connection, model_id) is not None:
        return
    table = VectorTable(name=_free_name(connection), model_id=model_id, dimensions=dimensions)
    _create(connection, table)
    _use(connection, table)
    fill(connection, table)


def fill(
    connection: apsw.Connection,
    table: VectorTable,
    entries: str = "SELECT rowid FROM entries",
    values: tuple[str, ...] = (),
) -> None:
    """Make entries searchable by meaning if there is a vector of their text.

    Args:
        connection: In a write transaction.
        table: The table.
        entries: A SELECT of the rowids of entries.
        values: Its parameters.
    """
    stored = f"FROM entries AS e CROSS JOIN embeddings AS v {_STORED}"
    model = table.model_id, 4 * table.dimensions
    # A row's version is a random number, so that it is never one of another vector.
    added = connection.execute(
        "INSERT OR IGNORE INTO vector_rows (vec_table, entry, version) "
        f"SELECT ?, e.rowid, random() {stored} WHERE e.rowid IN ({entries}) RETURNING entry",
        (table.name, *model, *values),
    ).fetchall()
    connection.executemany(
        f"INSERT INTO {table.name} (rowid, embedding) "
        f"SELECT e.rowid, v.vector {stored} WHERE e.rowid = ?",
        ((*model, entry) for (entry,) in added),
    )
    connection.execute(
        "UPDATE models SET written = written + ? WHERE vec_table = ?", (len(added), table.name)
    )


def clear(
    connection: apsw.Connection, table: VectorTable, entries: str, values: tuple[str, ...] = ()
) -> None:
    """Remove the searchable vectors of entries, given as for `fill`; the durable ones stay.

    vec0 has no upsert, and reads every row unless a single rowid is given.
    """
    removed = connection.execute(
        f"DELETE FROM vector_rows WHERE vec_table = ? AND entry IN ({entries}) RETURNING entry",  # noqa: S608
        (table.name, *values),
    ).fetchall()
    connection.executemany(f"DELETE FROM {table.name} WHERE rowid = ?", removed)  # noqa: S608


def compact(connection: apsw.Connection, table: VectorTable) -> None:
    """Copy scattered vectors to a table with another name.

    A chunk of sqlite-vec is only freed when it is empty, so scattered changes leave holes in all of
    them, and every search reads all chunks.
    """
    sql = (
        "SELECT written, (SELECT count(*) FROM vector_rows WHERE vec_table = ?1) "
        "FROM models WHERE vec_table = ?1"
    )
    written, rows = connection.execute(sql, (table.name,)).get
    if written <= 2 * rows + _SPARE_ROWS:
        return
    dense = replace(table, name=_free_name(connection))
    _create(connection, dense)
    connection.execute(
        f"INSERT INTO {dense.name} (rowid, embedding) SELECT rowid, embedding FROM {table.name}"  # noqa: S608
    )
    connection.execute(f"DROP TABLE {table.name}")
    connection.execute(
        "UPDATE vector_rows SET vec_table = ? WHERE vec_table = ?", (dense.name, table.name)
    )
    _use(connection, dense, written=rows)


def number_rows(connection: apsw.Connection) -> None:
    """Record the rows of vector tables, unless the last change did.

    Version 1 did not record them, and a process that still uses it may write after the migration.
    """
    if is_numbered(connection):
        return
    connection.execute("DELETE FROM vector_rows")
    for table in writable_tables(connection):
        connection.execute(
            "INSERT INTO vector_rows (vec_table, entry, version) "  # noqa: S608 - our own name
            f"SELECT ?, rowid, random() FROM {table.name}",
            (table.name,),
        )
        _use(connection, table, written=connection.changes())
    bump_generation(connection)


def put_vectors(
    connection: apsw.Connection, model_id: str, dimensions: int, blobs: Mapping[str, bytes]
) -> None:
    """Store vectors by text hash, make them searchable, and delete refusals of their texts."""
    durable = durable_id(connection, model_id, dimensions)
    at = max(time.time(), renewed_since(connection, durable))
    connection.executemany(
        "INSERT INTO embeddings (text_hash, model_id, vector, stored_at) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (model_id, text_hash) DO UPDATE "
        "SET vector = excluded.vector, stored_at = excluded.stored_at",
        ((text_hash, durable, blob, at) for text_hash, blob in blobs.items()),
    )
    connection.executemany(
        "DELETE FROM refusals WHERE model_id = ? AND text_hash = ?",
        ((model_id, text_hash) for text_hash in blobs),
    )
    use_model(connection, durable, dimensions)
    table = next((it for it in writable_tables(connection) if it.model_id == durable), None)
    if table is None:
        return
    entries = "SELECT rowid FROM entries WHERE text_hash IN (SELECT value FROM json_each(?))"
    hashes = (json.dumps(list(blobs)),)
    clear(connection, table, entries, hashes)
    fill(connection, table, entries, hashes)


def _use(connection: apsw.Connection, table: VectorTable, *, written: int = 0) -> None:
    connection.execute(
        "UPDATE models SET vec_table = ?, written = ? WHERE model_id = ?",
        (table.name, written, table.model_id),
    )


def _create(connection: apsw.Connection, table: VectorTable) -> None:
    connection.execute(
        f"CREATE VIRTUAL TABLE {table.name} USING vec0 "
        f"(embedding float[{table.dimensions}] distance_metric=cosine, chunk_size={_CHUNK_ROWS})"
    )


def _drop_unused(connection: apsw.Connection) -> None:
    """Drop the tables of idle models, and those abandoned by a process without sqlite-vec."""
    unused = connection.execute(
        "SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE VIRTUAL TABLE % USING vec0%' "
        "AND name NOT IN (SELECT vec_table FROM models WHERE vec_table IS NOT NULL)"
    )
    for (name,) in unused.fetchall():
        connection.execute(f'DROP TABLE "{name}"')
        connection.execute("DELETE FROM vector_rows WHERE vec_table = ?", (name,))


def _free_name(connection: apsw.Connection) -> str:
    taken = {table.name for table in vector_tables(connection)}
    names = [VEC_TABLE, *(f"{VEC_TABLE}_{number}" for number in range(2, len(taken) + 2))]
    return next(name for name in names if name not in taken)


def has_sqlite_vec(connection: apsw.Connection) -> bool:
    sql = "SELECT 1 FROM pragma_module_list WHERE name = 'vec0'"
    return connection.execute(sql).fetchone() is not None


def durable_id(connection: apsw.Connection, model_id: str, dimensions: int | None = None) -> str:
    """Return the id under which vectors of a model are stored, such as `openai:some-model [32]`.

    Vectors of the first length are stored under the model's own id. Without `dimensions`, it is the
    id of the length used last.
    """
    if dimensions is None:
        used_last = connection.execute(
            "SELECT model_id FROM models WHERE model_id = ?1 "
            "OR substr(model_id, 1, length(?1) + 2) = ?1 || ' [' ORDER BY used_at DESC LIMIT 1",
            (model_id,),
        ).get
        return model_id if used_last is None else str(used_last)
    first = durable_dimensions(connection, model_id)
    return model_id if first in {None, dimensions} else f"{model_id} [{dimensions}]"


def model_of(durable: str) -> str:
    return re.sub(r" \[\d+\]$", "", durable)


def durable_dimensions(connection: apsw.Connection, durable: str) -> int | None:
    """Return the length of the vectors that are stored under an id, or None if there are none."""
    sql = "SELECT length(vector) / 4 FROM embeddings WHERE model_id = ? LIMIT 1"
    return connection.execute(sql, (durable,)).get  # type: ignore[no-any-return]


def begin_renewal(connection: apsw.Connection, durable: str) -> None:
    """Mark all vectors that are stored under an id as old."""
    sql = "SELECT max(stored_at) FROM embeddings WHERE model_id = ?"
    latest = connection.execute(sql, (durable,)).get or 0.0
    # Later than all existing ones, even if the clock was set back.
    since = max(time.time(), math.nextafter(latest, math.inf))
    set_meta(connection, _RENEWAL + durable, repr(since))


def renewed_since(connection: apsw.Connection, durable: str) -> float:
    """Return the time before which vectors count as old; 0 if none do."""
    return float(get_meta(connection, _RENEWAL + durable) or 0)


def renewals(connection: apsw.Connection) -> list[str]:
    """Return the ids whose vectors are being replaced."""
    sql = "SELECT substr(key, length(?1) + 1) FROM meta WHERE substr(key, 1, length(?1)) = ?1"
    return [str(durable) for (durable,) in connection.execute(sql, (_RENEWAL,))]


def end_renewal(connection: apsw.Connection, durable: str) -> None:
    """Delete old vectors that were not replaced, once all texts have new ones."""
    connection.execute(
        "DELETE FROM embeddings WHERE model_id = ? AND stored_at < ? "
        "AND text_hash NOT IN (SELECT text_hash FROM entries)",
        (durable, renewed_since(connection, durable)),
    )
    connection.execute("DELETE FROM query_embeddings WHERE model_id = ?", (model_of(durable),))
    connection.execute("DELETE FROM meta WHERE key = ?", (_RENEWAL + durable,))


# SQLite writes the two files of an index one after the other, so after a crash one can be older,
# and either can be removed, restored or created again. Each vector in use is in both: in the index
# for searches, in the other file to be durable. Both files store a change counter; if the counters
# differ, missing vectors are copied in both directions.


def vectors_changed(connection: apsw.Connection) -> None:
    """Record in both files, in a write transaction, that vectors were stored or deleted."""
    set_meta(connection, _VECTORS, str(bump(connection, _VECTORS)))


def agree(connection: apsw.Connection) -> bool:
    return get_number(connection, _VECTORS) == counter(connection, _VECTORS)


def reconcile(connection: apsw.Connection) -> None:
    """Copy to each of the two files, in a write transaction, vectors that only the other has."""
    number_rows(connection)
    for table in vector_tables(connection):
        try:
            with connection:
                _store_searchable(connection, table)
        except apsw.SQLError:
            pass  # The next search will notice that the index is damaged.
    connection.execute(
        "INSERT OR IGNORE INTO models (model_id, dimensions, used_at) "
        "SELECT model_id, length(vector) / 4, 0 FROM embeddings GROUP BY model_id"
    )
    for table in vector_tables(connection):
        fill(connection, table)
    vectors_changed(connection)
    bump_generation(connection)


def _store_searchable(connection: apsw.Connection, table: VectorTable) -> None:
    # A durable file without a counter is new, or was restored: the index's vectors are later ones.
    conflict = "IGNORE" if counter(connection, _VECTORS) else "REPLACE"
    connection.execute(
        f"INSERT OR {conflict} INTO embeddings (text_hash, model_id, stored_at, vector) "  # noqa: S608
        "SELECT e.text_hash, ?, ?, t.embedding "
        f"FROM {table.name} AS t JOIN entries AS e ON e.rowid = t.rowid",
        (table.model_id, time.time()),
    )
