"""Vectors: checked on entry, kept by text and model, searchable for every model in use."""

from __future__ import annotations

import json
import math
import struct
import time
from array import array
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from toolindex._extension import has_sqlite_vec
from toolindex._kept_ids import kept_id, renewed_since
from toolindex.errors import VectorError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import apsw

VEC_TABLE = "entries_vec"
MAX_DIMENSIONS = 8_192
"""The longest vectors that sqlite-vec takes."""
_CHUNK_ROWS = 256
# A chunk is freed when it is empty, so updates here and there leave holes in all of them.
_SPARE_CHUNKS = 8
_UNUSED_SECONDS = 30 * 24 * 3600.0
# That a model is in use is noted no more often than this: every start would write otherwise.
_NOTED_SECONDS = 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorTable:
    """Where the vectors of one model are searched.

    Attributes:
        name: The vec0 table; its rowids are those of `entries`.
        model_id: The model.
        dimensions: The length of its vectors.
    """

    name: str
    model_id: str
    dimensions: int


def to_blob(vector: Sequence[float], *, model_id: str, dimensions: int) -> bytes:
    """Check a vector, bring it to length 1, and write it as the database keeps it.

    Args:
        vector: One float per dimension.
        model_id: Who gave it, for the error.
        dimensions: How many are expected.

    Returns:
        Little-endian float32.

    Raises:
        VectorError: The wrong number of dimensions, or too many; a value that is not finite in
            single precision, or all zeros.
    """
    if len(vector) != dimensions:
        raise VectorError(
            model_id, f"gave a vector of {len(vector)} dimensions where {dimensions} were expected"
        )
    check_dimensions(model_id, dimensions)
    # As it is searched: what a double holds may be nothing, or infinite, in single precision.
    length = math.hypot(*array("f", vector))
    if not math.isfinite(length):
        raise VectorError(model_id, "gave a vector with a value that is not finite")
    if length == 0:
        raise VectorError(model_id, "gave a vector of zeros, which has no direction")
    return struct.pack(f"<{dimensions}f", *(value / length for value in vector))


def check_dimensions(model_id: str, dimensions: int | None) -> None:
    """Make sure that vectors of a length can be searched.

    Raises:
        VectorError: They are longer than sqlite-vec takes.
    """
    if dimensions is not None and dimensions > MAX_DIMENSIONS:
        raise VectorError(
            model_id,
            f"gives vectors of {dimensions:,} dimensions, but an index allows at most "
            f"{MAX_DIMENSIONS:,}; choose fewer if the model supports it, or another model",
        )


def vector_tables(connection: apsw.Connection) -> list[VectorTable]:
    """Return the vector tables that there are; none where sqlite-vec cannot be loaded."""
    if not has_sqlite_vec(connection):
        return []
    rows = connection.execute(
        "SELECT vec_table, model_id, dimensions FROM models WHERE vec_table IS NOT NULL"
    )
    return [VectorTable(name=row[0], model_id=row[1], dimensions=row[2]) for row in rows]


def writable_tables(connection: apsw.Connection) -> list[VectorTable]:
    """Return the vector tables that have to follow a change of the entries or the vectors.

    Without sqlite-vec none can: they are given up, and `use_model` makes new ones where the
    extension can be loaded.
    """
    if not has_sqlite_vec(connection):
        connection.execute("UPDATE models SET vec_table = NULL WHERE vec_table IS NOT NULL")
    return vector_tables(connection)


def vector_table(connection: apsw.Connection, model_id: str) -> VectorTable | None:
    """Return the table in which a model's vectors are searched, or None where there is none."""
    tables = vector_tables(connection)
    return next((table for table in tables if table.model_id == model_id), None)


def kept_vectors(model_id: str, dimensions: int) -> tuple[str, tuple[str, int]]:
    """Return a SELECT of the rowid and the kept vector of each entry, with its parameters."""
    return (
        "SELECT e.rowid, v.vector FROM entries AS e JOIN embeddings AS v "
        "ON v.model_id = ? AND v.text_hash = e.text_hash AND length(v.vector) = ?",
        (model_id, 4 * dimensions),
    )


def is_in_use(connection: apsw.Connection, model_id: str) -> bool:
    """Return whether a model has its table, if any can, and its use was noted in the last day."""
    since = time.time() - _NOTED_SECONDS
    sql = "SELECT vec_table IS NOT NULL FROM models WHERE model_id = ? AND used_at > ?"
    has_table = connection.execute(sql, (model_id, since)).get
    return has_table is not None and (bool(has_table) or not has_sqlite_vec(connection))


def use_model(connection: apsw.Connection, model_id: str, dimensions: int) -> None:
    """Put the kept vectors of a model into a table, where one can be made.

    Models that nobody has put to use for a month have no table; their vectors are kept, and
    putting them to use again costs nothing.
    """
    now = time.time()
    # The last use must be the latest, also where the clock has gone back.
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
    connection.execute("UPDATE models SET vec_table = ? WHERE model_id = ?", (table.name, model_id))
    fill(connection, table)


def fill(connection: apsw.Connection, table: VectorTable, ids: Sequence[str] | None = None) -> None:
    """Make entries searchable by meaning where a vector is kept for their text.

    Args:
        connection: A connection inside a write transaction.
        table: The table to fill.
        ids: The entries to look at; None means all.
    """
    sql = (
        f"INSERT INTO {table.name} (rowid, embedding) "  # noqa: S608 - our own name
        "SELECT e.rowid, v.vector FROM entries AS e JOIN embeddings AS v "
        "ON v.model_id = :model AND v.text_hash = e.text_hash AND length(v.vector) = :bytes "
        f"WHERE NOT EXISTS (SELECT 1 FROM {table.name}_rowids AS r WHERE r.rowid = e.rowid)"
    )
    parameters = {"model": table.model_id, "bytes": 4 * table.dimensions}
    if ids is None:
        connection.execute(sql, parameters)
    else:
        connection.executemany(f"{sql} AND e.id = :id", (parameters | {"id": id_} for id_ in ids))


def forget(connection: apsw.Connection, table: VectorTable, ids: Sequence[str]) -> None:
    """Take the searchable vectors of some entries away; the kept ones stay."""
    connection.executemany(
        f"DELETE FROM {table.name} WHERE rowid = (SELECT rowid FROM entries WHERE id = ?)",  # noqa: S608
        ((id_,) for id_ in ids),
    )


def forget_superseded(connection: apsw.Connection, table: VectorTable, ids: Sequence[str]) -> None:
    """Take away the searchable vectors of those entries for whose text another is kept."""
    connection.executemany(
        f"DELETE FROM {table.name} WHERE rowid = (SELECT e.rowid FROM entries AS e "  # noqa: S608
        "JOIN embeddings AS v ON v.model_id = ? AND v.text_hash = e.text_hash WHERE e.id = ?)",
        ((table.model_id, id_) for id_ in ids),
    )


def close_holes(connection: apsw.Connection, table: VectorTable) -> None:
    """Put the vectors together, under another name, where they are left far apart.

    Every search reads all chunks, also those in which one vector is left.
    """
    tools = connection.execute("SELECT count(*) FROM entries").get
    chunks = connection.execute(f"SELECT count(*) FROM {table.name}_chunks").get  # noqa: S608
    if chunks <= 2 * (tools // _CHUNK_ROWS) + _SPARE_CHUNKS:
        return
    dense = replace(table, name=_free_name(connection))
    _create(connection, dense)
    connection.execute(
        f"INSERT INTO {dense.name} (rowid, embedding) SELECT rowid, embedding FROM {table.name}"  # noqa: S608
    )
    connection.execute(f"DROP TABLE {table.name}")
    connection.execute(
        "UPDATE models SET vec_table = ? WHERE model_id = ?", (dense.name, table.model_id)
    )


def put_vectors(
    connection: apsw.Connection, model_id: str, dimensions: int, blobs: Mapping[str, bytes]
) -> None:
    """Keep vectors by text hash, and make them searchable; what was refused no longer is."""
    kept = kept_id(connection, model_id, dimensions)
    at = max(time.time(), renewed_since(connection, kept))
    connection.executemany(
        "INSERT INTO embeddings (text_hash, model_id, vector, stored_at) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (model_id, text_hash) DO UPDATE "
        "SET vector = excluded.vector, stored_at = excluded.stored_at",
        ((text_hash, kept, blob, at) for text_hash, blob in blobs.items()),
    )
    connection.executemany(
        "DELETE FROM refusals WHERE model_id = ? AND text_hash = ?",
        ((model_id, text_hash) for text_hash in blobs),
    )
    use_model(connection, kept, dimensions)
    table = next((it for it in writable_tables(connection) if it.model_id == kept), None)
    if table is None:
        return
    rows = connection.execute(
        "SELECT e.rowid, e.text_hash FROM json_each(?) AS given "
        "JOIN entries AS e ON e.text_hash = given.value",
        (json.dumps(list(blobs)),),
    ).fetchall()
    # vec0 has no upsert, and looks at every row unless the one rowid is given.
    connection.executemany(
        f"DELETE FROM {table.name} WHERE rowid = ?",  # noqa: S608
        ((rowid,) for rowid, _ in rows),
    )
    connection.executemany(
        f"INSERT INTO {table.name} (rowid, embedding) VALUES (?, ?)",  # noqa: S608
        ((rowid, blobs[str(text_hash)]) for rowid, text_hash in rows),
    )


def _create(connection: apsw.Connection, table: VectorTable) -> None:
    connection.execute(
        f"CREATE VIRTUAL TABLE {table.name} USING vec0 "
        f"(embedding float[{table.dimensions}] distance_metric=cosine, chunk_size={_CHUNK_ROWS})"
    )


def _drop_unused(connection: apsw.Connection) -> None:
    """Drop the tables of models that are idle, or that a process without sqlite-vec gave up."""
    unused = connection.execute(
        "SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE VIRTUAL TABLE % USING vec0%' "
        "AND name NOT IN (SELECT vec_table FROM models WHERE vec_table IS NOT NULL)"
    )
    for (name,) in unused.fetchall():
        connection.execute(f'DROP TABLE "{name}"')


def _free_name(connection: apsw.Connection) -> str:
    taken = {table.name for table in vector_tables(connection)}
    names = [VEC_TABLE, *(f"{VEC_TABLE}_{number}" for number in range(2, len(taken) + 2))]
    return next(name for name in names if name not in taken)
