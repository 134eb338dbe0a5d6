"""Pruning: deleting vectors that are unlikely to be needed again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolindex._kept_ids import end_renewal, kept_id, model_of, renewals
from toolindex._pending import count_pending

if TYPE_CHECKING:
    import apsw

    from toolindex._connection import ConnectionPool

KEPT_SPARES = 5_000
"""The minimum number of vectors without an entry that each model keeps."""

_ORPHAN = "NOT EXISTS (SELECT 1 FROM entries WHERE entries.text_hash = embeddings.text_hash)"
_UNUSED = (
    "vec_table IS NULL "
    "AND NOT EXISTS (SELECT 1 FROM embeddings WHERE embeddings.model_id = models.model_id)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneReport:
    """What was deleted.

    Attributes:
        vectors: The number of deleted vectors.
        models: The models that have no vectors left.
    """

    vectors: int
    models: tuple[str, ...]


def prune(pool: ConnectionPool, *, spares: int = KEPT_SPARES) -> PruneReport:
    """Delete the oldest vectors that no entry uses, and models without vectors.

    A vector costs money, and its text may come back: a file is renamed in two steps, a category is
    removed and generated again, a branch is switched, a model is tried for a while. So all models'
    vectors for texts of entries are kept, and for each model also the newest other vectors, up to
    twice the number of entries. That is room for two rewrites of the whole tree, and limits the
    file to three times what is in use.

    Call it when idle. It only takes the write lock to delete. At least `spares` other vectors are
    kept, however few entries there are.
    """
    with pool.read() as connection:
        room = max(spares, 2 * connection.execute("SELECT count(*) FROM entries").get)
        crowded = _crowded(connection, room)
        if not (crowded or _unused_models(connection) or _renewed(connection)):
            return PruneReport(vectors=0, models=())
    with pool.write() as connection:
        # Counted again, because others may have written since.
        room = max(spares, 2 * connection.execute("SELECT count(*) FROM entries").get)
        vectors = sum(_forget_spares(connection, model_id, room) for model_id in crowded)
        for kept in _renewed(connection):
            end_renewal(connection, kept)
        models = _unused_models(connection)
        connection.executemany(
            "DELETE FROM query_embeddings WHERE model_id = ?", [(model,) for model in models]
        )
        connection.execute(f"DELETE FROM models WHERE {_UNUSED}")  # noqa: S608 - a constant
    return PruneReport(vectors=vectors, models=models)


def _renewed(connection: apsw.Connection) -> list[str]:
    """Return the ids whose old vectors have all been replaced."""
    return [
        kept
        for kept in renewals(connection)
        if kept_id(connection, model_of(kept)) == kept
        and not count_pending(connection, model_of(kept))
    ]


def _crowded(connection: apsw.Connection, room: int) -> list[str]:
    """Return the models that have too many vectors without an entry."""
    # SQLite counts a whole table by its pages, while a condition reads every row.
    if connection.execute("SELECT count(*) FROM embeddings").get <= room:
        return []
    # Step from model to model by the primary key, because DISTINCT would read every row.
    models = connection.execute(
        "WITH RECURSIVE each (model_id) AS (SELECT min(model_id) FROM embeddings UNION ALL "
        "SELECT (SELECT min(model_id) FROM embeddings WHERE model_id > each.model_id) "
        "FROM each WHERE model_id IS NOT NULL) "
        "SELECT model_id FROM each WHERE model_id IS NOT NULL"
    ).fetchall()
    ids = [str(model_id) for (model_id,) in models]
    return [model_id for model_id in ids if _spares(connection, model_id) > room]


def _spares(connection: apsw.Connection, model_id: str) -> int:
    kept, used = connection.execute(
        "SELECT (SELECT count(*) FROM embeddings WHERE model_id = ?1), "
        "(SELECT count(*) FROM (SELECT DISTINCT text_hash FROM entries) AS wanted "
        "WHERE EXISTS (SELECT 1 FROM embeddings "
        "WHERE model_id = ?1 AND embeddings.text_hash = wanted.text_hash))",
        (model_id,),
    ).get
    return int(kept) - int(used)


def _forget_spares(connection: apsw.Connection, model_id: str, room: int) -> int:
    connection.execute(
        "DELETE FROM embeddings WHERE model_id = ?1 AND text_hash IN "  # noqa: S608 - a constant
        f"(SELECT text_hash FROM embeddings WHERE model_id = ?1 AND {_ORPHAN} "
        "ORDER BY stored_at DESC, text_hash LIMIT -1 OFFSET ?2)",
        (model_id, room),
    )
    return connection.changes()


def _unused_models(connection: apsw.Connection) -> tuple[str, ...]:
    rows = connection.execute(f"SELECT model_id FROM models WHERE {_UNUSED}")  # noqa: S608
    return tuple(str(model_id) for (model_id,) in rows)
