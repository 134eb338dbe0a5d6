"""What is stored for each embedding model: texts it has to embed, refusals, vectors of queries.

Vectors of texts that no tool has any longer are deleted when there are too many (`prune`).
"""

from __future__ import annotations

import json
import math
import struct
import time
from array import array
from typing import TYPE_CHECKING

from toolindex._rows import text_of
from toolindex._vectors import (
    durable_dimensions,
    durable_id,
    end_renewal,
    model_of,
    renewals,
    renewed_since,
    to_blob,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import apsw

    from toolindex._connection import ConnectionPool

# The first refusal may be a provider's hiccup; the tenth hardly is.
_FIRST_DELAY = 45.0
_LONGEST_DELAY = 24 * 3600.0
_FORGOTTEN_SECONDS = 30 * 24 * 3600.0
_DELAY = f"min({_LONGEST_DELAY}, {_FIRST_DELAY} * (1 << min(times - 1, 20)))"
# A refusal with a future date was recorded with a wrong clock.
_REFUSED = f"abs(at - :now) < {_DELAY}"
# The order makes SQLite merge three indexes, reading each once from its beginning; without it,
# every text is looked up in two of them.
_PENDING = (
    "SELECT text_hash FROM entries {among} "  # noqa: S608 - constants
    "EXCEPT SELECT text_hash FROM embeddings WHERE model_id = :durable {renewed} "
    f"EXCEPT SELECT text_hash FROM refusals WHERE model_id = :model AND {_REFUSED} "
    "ORDER BY text_hash LIMIT :limit"
)

SPARES = 5_000
"""The minimum number of vectors without an entry that each model keeps."""
_ORPHAN = "NOT EXISTS (SELECT 1 FROM entries WHERE entries.text_hash = embeddings.text_hash)"
_UNUSED = (
    "vec_table IS NULL "
    "AND NOT EXISTS (SELECT 1 FROM embeddings WHERE embeddings.model_id = models.model_id)"
)
# Vectors of queries can be computed again, so storing them is not worth a long wait.
_PATIENCE_MS = 500


def count_pending(connection: apsw.Connection, model_id: str) -> int:
    pending, parameters = _pending(connection, model_id, -1)
    return int(connection.execute(f"SELECT count(*) FROM ({pending})", parameters).get)  # noqa: S608


def pending_texts(
    connection: apsw.Connection,
    model_id: str,
    *,
    limit: int,
    among: Collection[str] | None = None,
) -> dict[str, str]:
    pending, parameters = _pending(connection, model_id, limit, among)
    # Ordered by rowid, so that vectors of neighbouring rows are stored together.
    rows = connection.execute(
        f"WITH pending AS MATERIALIZED ({pending}) "  # noqa: S608
        "SELECT e.text_hash, e.id, e.description, e.parameters, e.tags "
        "FROM pending CROSS JOIN entries AS e ON e.rowid = "
        "(SELECT min(rowid) FROM entries WHERE entries.text_hash = pending.text_hash) "
        "ORDER BY e.rowid",
        parameters,
    )
    return {str(text_hash): text_of(row) for text_hash, *row in rows}


def _pending(
    connection: apsw.Connection,
    model_id: str,
    limit: int,
    among: Collection[str] | None = None,
) -> tuple[str, dict[str, str | float]]:
    durable = durable_id(connection, model_id)
    since = renewed_since(connection, durable)
    # No index covers the time of a vector, so it is only compared if it matters.
    renewed = "AND stored_at >= :since" if since else ""
    some = "" if among is None else "WHERE text_hash IN (SELECT value FROM json_each(:among))"
    return _PENDING.format(renewed=renewed, among=some), {
        "model": model_id,
        "durable": durable,
        "now": time.time(),
        "limit": limit,
        "since": since,
        "among": json.dumps(list(among or ())),
    }


def refuse(connection: apsw.Connection, model_id: str, reasons: Mapping[str, str]) -> None:
    """Record why a model refused some texts, and delete refusals that have expired."""
    now = time.time()
    connection.execute("DELETE FROM refusals WHERE abs(at - ?) > ?", (now, _FORGOTTEN_SECONDS))
    connection.executemany(
        "INSERT INTO refusals (model_id, text_hash, reason, at) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (model_id, text_hash) "
        "DO UPDATE SET reason = excluded.reason, at = excluded.at, times = times + 1",
        ((model_id, text_hash, reason, now) for text_hash, reason in reasons.items()),
    )


def refused_tools(connection: apsw.Connection, model_id: str) -> dict[str, str]:
    rows = connection.execute(
        "SELECT e.id, r.reason FROM refusals AS r CROSS JOIN entries AS e "  # noqa: S608
        f"ON e.text_hash = r.text_hash WHERE r.model_id = :model AND {_REFUSED} ORDER BY e.id",
        {"model": model_id, "now": time.time()},
    )
    return {str(id_): str(reason) for id_, reason in rows}


def prune(pool: ConnectionPool, *, spares: int = SPARES) -> int:
    """Delete the oldest vectors that no entry uses, and models without vectors.

    Returns how many vectors were deleted.

    A vector costs money, and its text may come back: a file is renamed in two steps, a category is
    removed and generated again, a branch is switched, a model is tried for a while. So all models'
    vectors for texts of entries are kept, and for each model also the newest other vectors, up to
    twice the number of entries, but at least `spares`. That is room for two rewrites of the whole
    tree, and limits the file to three times what is in use. The write lock is only taken to delete.
    """
    with pool.read() as connection:
        crowded = _crowded(connection, _room(connection, spares))
        if not (crowded or _unused_models(connection) or _renewed(connection)):
            return 0
    with pool.write() as connection:
        # Counted again, because others may have written since.
        room, vectors = _room(connection, spares), 0
        for model_id in crowded:
            connection.execute(
                "DELETE FROM embeddings WHERE model_id = ?1 AND text_hash IN "  # noqa: S608
                f"(SELECT text_hash FROM embeddings WHERE model_id = ?1 AND {_ORPHAN} "
                "ORDER BY stored_at DESC, text_hash LIMIT -1 OFFSET ?2)",
                (model_id, room),
            )
            vectors += connection.changes()
        for durable in _renewed(connection):
            end_renewal(connection, durable)
        connection.executemany(
            "DELETE FROM query_embeddings WHERE model_id = ?", _unused_models(connection)
        )
        connection.execute(f"DELETE FROM models WHERE {_UNUSED}")  # noqa: S608 - a constant
    return vectors


def _room(connection: apsw.Connection, spares: int) -> int:
    return max(spares, 2 * connection.execute("SELECT count(*) FROM entries").get)


def _renewed(connection: apsw.Connection) -> list[str]:
    """Return the ids whose old vectors have all been replaced."""
    return [
        durable
        for durable in renewals(connection)
        if durable_id(connection, model_of(durable)) == durable
        and not count_pending(connection, model_of(durable))
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
        "FROM each WHERE model_id IS NOT NULL) SELECT model_id, "
        "(SELECT count(*) FROM embeddings WHERE model_id = each.model_id) - "
        "(SELECT count(*) FROM (SELECT DISTINCT text_hash FROM entries) AS wanted "
        "WHERE EXISTS (SELECT 1 FROM embeddings "
        "WHERE model_id = each.model_id AND embeddings.text_hash = wanted.text_hash)) "
        "FROM each WHERE model_id IS NOT NULL"
    )
    return [str(model_id) for model_id, spares in models if spares > room]


def _unused_models(connection: apsw.Connection) -> list[tuple[str]]:
    rows = connection.execute(f"SELECT model_id FROM models WHERE {_UNUSED}")  # noqa: S608
    return [(str(model_id),) for (model_id,) in rows]


class QueryVectors:
    """The vectors of the most recent queries, for each model; see `VectorCache`.

    Reading writes nothing. A caller collects new vectors and used ones, and passes both to `put`
    now and then, in one transaction. Queries themselves are not stored, only their hashes.

    Args:
        pool: The database.
        max_per_model: How many vectors to keep for a model; the least recently used are deleted
            first.
    """

    def __init__(self, pool: ConnectionPool, *, max_per_model: int = 2_000) -> None:
        self._pool = pool
        self._max_per_model = max_per_model

    def get(
        self, model_id: str, query: str, *, dimensions: int | None = None
    ) -> array[float] | None:
        with self._pool.read() as connection:
            if dimensions is None:
                dimensions = durable_dimensions(connection, durable_id(connection, model_id))
            blob = connection.execute(
                "SELECT vector FROM query_embeddings WHERE model_id = ? AND query_hash = ?",
                (model_id, _hash(query)),
            ).get
        if blob is None or dimensions not in {None, len(blob) // 4}:
            return None
        # Returned as an array, which is compact; unpacked, because it is stored as little-endian.
        return array("f", struct.unpack(f"<{len(blob) // 4}f", blob))

    def put(
        self,
        model_id: str,
        vectors: Mapping[str, Sequence[float]],
        *,
        used: Collection[str] = (),
    ) -> None:
        if not vectors and not used:
            return
        dimensions = len(next(iter(vectors.values()), ()))
        blobs = {
            _hash(query): to_blob(vector, model_id=model_id, dimensions=dimensions)
            for query, vector in vectors.items()
        }
        with self._pool.write(patience_ms=_PATIENCE_MS) as connection:
            latest = connection.execute(
                "SELECT max(used_at) FROM query_embeddings WHERE model_id = ?", (model_id,)
            ).get
            # Later than the latest use: if the clock was set back, a use dated in the future would
            # stay the latest, and displace all new vectors.
            at = max(time.time(), math.nextafter(latest or 0.0, math.inf))
            connection.executemany(
                "UPDATE query_embeddings SET used_at = ? WHERE model_id = ? AND query_hash = ?",
                [(at, model_id, _hash(query)) for query in used],
            )
            connection.executemany(
                "INSERT INTO query_embeddings (model_id, query_hash, vector, used_at) "
                "VALUES (?, ?, ?, ?) ON CONFLICT (model_id, query_hash) "
                "DO UPDATE SET vector = excluded.vector, used_at = excluded.used_at",
                [(model_id, query_hash, blob, at) for query_hash, blob in blobs.items()],
            )
            connection.execute(
                "DELETE FROM query_embeddings WHERE model_id = ?1 AND query_hash IN "
                "(SELECT query_hash FROM query_embeddings WHERE model_id = ?1 "
                "ORDER BY used_at DESC LIMIT -1 OFFSET ?2)",
                (model_id, self._max_per_model),
            )


def _hash(query: str) -> str:
    import hashlib  # It takes long, and an index is mostly used without it.

    # Any string gets a hash, even one that is not valid Unicode.
    return hashlib.sha256(query.encode("utf-8", "surrogatepass")).hexdigest()
