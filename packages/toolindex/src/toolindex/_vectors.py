"""Vectors: checked on entry, kept for ever by text and model, searchable for one model."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

from toolscan import ToolId, embedding_text

from toolindex._rows import parameters_from_json
from toolindex._schema import get_meta, set_meta
from toolindex.errors import VectorError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import apsw

__all__ = ["VEC_TABLE", "activate_model", "active_model", "pending_texts", "put_vectors", "to_blob"]

VEC_TABLE = "entries_vec"
_CHUNK_ROWS = 256


def to_blob(vector: Sequence[float], *, model_id: str, dimensions: int) -> bytes:
    """Check a vector, bring it to length 1, and write it as the database keeps it.

    Args:
        vector: One float per dimension.
        model_id: Who gave it, for the error.
        dimensions: How many are expected.

    Returns:
        Little-endian float32.

    Raises:
        VectorError: The wrong number of dimensions, a value that is not finite, or all zeros.
    """
    if len(vector) != dimensions:
        raise VectorError(
            model_id, f"gave a vector of {len(vector)} dimensions where {dimensions} were expected"
        )
    length = math.hypot(*vector)
    if not math.isfinite(length):
        raise VectorError(model_id, "gave a vector with a value that is not finite")
    if length == 0:
        raise VectorError(model_id, "gave a vector of zeros, which has no direction")
    return struct.pack(f"<{dimensions}f", *(value / length for value in vector))


def active_model(connection: apsw.Connection) -> tuple[str, int] | None:
    """Give the model (id, dimensions) whose vectors are searchable, or None before the first."""
    model_id = get_meta(connection, "model_id")
    dimensions = get_meta(connection, "dimensions")
    return None if model_id is None or dimensions is None else (model_id, int(dimensions))


def activate_model(connection: apsw.Connection, model_id: str, dimensions: int) -> None:
    """Make a model's vectors the searchable ones, filling in those kept from earlier."""
    if active_model(connection) == (model_id, dimensions):
        return
    connection.execute(f"DROP TABLE IF EXISTS {VEC_TABLE}")
    connection.execute(
        f"CREATE VIRTUAL TABLE {VEC_TABLE} USING vec0 "
        f"(embedding float[{dimensions}] distance_metric=cosine, chunk_size={_CHUNK_ROWS})"
    )
    set_meta(connection, "model_id", model_id)
    set_meta(connection, "dimensions", str(dimensions))
    fill_from_kept(connection)


def fill_from_kept(connection: apsw.Connection, ids: Sequence[str] | None = None) -> None:
    """Make entries searchable by meaning where a vector is kept for their text.

    Args:
        connection: A connection inside a write transaction.
        ids: The entries to look at; None means all.
    """
    active = active_model(connection)
    if active is None:
        return
    model_id, dimensions = active
    sql = (
        f"INSERT INTO {VEC_TABLE} (rowid, embedding) "  # noqa: S608 - a constant
        "SELECT e.rowid, v.vector FROM entries AS e JOIN embeddings AS v "
        "ON v.model_id = :model AND v.text_hash = e.text_hash AND length(v.vector) = :bytes "
        f"WHERE NOT EXISTS (SELECT 1 FROM {VEC_TABLE}_rowids AS r WHERE r.rowid = e.rowid)"
    )
    parameters = {"model": model_id, "bytes": 4 * dimensions}
    if ids is None:
        connection.execute(sql, parameters)
    else:
        connection.executemany(f"{sql} AND e.id = :id", (parameters | {"id": id_} for id_ in ids))


def forget_rows(connection: apsw.Connection, ids: Sequence[str]) -> None:
    """Take the searchable vectors of some entries away; the kept ones stay."""
    if active_model(connection) is None:
        return
    connection.executemany(
        f"DELETE FROM {VEC_TABLE} WHERE rowid = (SELECT rowid FROM entries WHERE id = ?)",  # noqa: S608
        ((id_,) for id_ in ids),
    )


def pending_texts(connection: apsw.Connection, model_id: str, limit: int) -> dict[str, str]:
    """Give up to `limit` texts, by hash, that have no vector of this model yet."""
    rows = connection.execute(
        "SELECT text_hash, id, description, parameters FROM entries AS e "
        "WHERE NOT EXISTS (SELECT 1 FROM embeddings AS v "
        "WHERE v.model_id = ? AND v.text_hash = e.text_hash) "
        "GROUP BY text_hash ORDER BY rowid LIMIT ?",
        (model_id, limit),
    )
    return {
        text_hash: embedding_text(ToolId.parse(id_), description, parameters_from_json(parameters))
        for text_hash, id_, description, parameters in rows
    }


def put_vectors(
    connection: apsw.Connection, model_id: str, dimensions: int, blobs: Mapping[str, bytes]
) -> None:
    """Keep vectors by text hash, and make them and their model the searchable ones."""
    connection.executemany(
        "INSERT INTO embeddings (text_hash, model_id, vector) VALUES (?, ?, ?) "
        "ON CONFLICT (model_id, text_hash) DO UPDATE SET vector = excluded.vector",
        ((text_hash, model_id, blob) for text_hash, blob in blobs.items()),
    )
    activate_model(connection, model_id, dimensions)
    # vec0 has no upsert.
    connection.executemany(
        f"DELETE FROM {VEC_TABLE} WHERE rowid IN (SELECT rowid FROM entries WHERE text_hash = ?)",  # noqa: S608
        ((text_hash,) for text_hash in blobs),
    )
    connection.executemany(
        f"INSERT INTO {VEC_TABLE} (rowid, embedding) "  # noqa: S608
        "SELECT rowid, ?2 FROM entries WHERE text_hash = ?1",
        blobs.items(),
    )
