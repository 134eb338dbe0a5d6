"""Query vectors, kept so that a repeated query needs no request to the model."""

from __future__ import annotations

import hashlib
import math
import struct
import time
from array import array
from typing import TYPE_CHECKING

from toolindex._kept_ids import kept_dimensions, kept_id
from toolindex._vectors import to_blob

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import apsw

    from toolindex._connection import ConnectionPool

# They can be computed again, so storing them is not worth a long wait.
_PATIENCE_MS = 500


class QueryVectors:
    """Keeps the vectors of the most recent queries, for each model.

    Reading writes nothing. A caller collects new vectors and used ones, and passes both to `put`
    now and then, in one transaction. Queries themselves are not kept, only their hashes.

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
        """Return a model's unit vector for a query, or None if none is kept.

        Args:
            model_id: The model.
            query: The query, exactly as it was embedded.
            dimensions: The current length of the model's vectors, None for the last one; vectors of
                another length are not returned.
        """
        with self._pool.read() as connection:
            if dimensions is None:
                dimensions = kept_dimensions(connection, kept_id(connection, model_id))
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
        """Keep the vectors of some queries, and record which of the kept ones were used.

        Args:
            model_id: The model.
            vectors: The vectors by query.
            used: Queries whose kept vectors have been used since the last call.

        Raises:
            VectorError: The vectors have different lengths, or one is not finite or all zeros; none
                was stored.
            DatabaseError: The database cannot be written.
        """
        if not vectors and not used:
            return
        dimensions = len(next(iter(vectors.values()), ()))
        blobs = {
            _hash(query): to_blob(vector, model_id=model_id, dimensions=dimensions)
            for query, vector in vectors.items()
        }
        with self._pool.write(patience_ms=_PATIENCE_MS) as connection:
            at = _next_use(connection, model_id)
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


def _next_use(connection: apsw.Connection, model_id: str) -> float:
    """Return the time, or slightly more than the latest use if the clock was set back.

    Otherwise a use dated in the future would stay the latest, and displace all new vectors.
    """
    latest = connection.execute(
        "SELECT max(used_at) FROM query_embeddings WHERE model_id = ?", (model_id,)
    ).get
    now = time.time()
    return now if latest is None else max(now, math.nextafter(latest, math.inf))


def _hash(query: str) -> str:
    # Any string gets a hash, even one that is not valid Unicode.
    return hashlib.sha256(query.encode("utf-8", "surrogatepass")).hexdigest()
