"""Vectors of queries, which hosts share: a question that one host asked costs no other anything."""

from __future__ import annotations

import hashlib
from array import array
from contextlib import suppress
from typing import TYPE_CHECKING

from toolindex.errors import DatabaseError

from toolindex_postgres._texts import encoded
from toolindex_postgres._tree import as_bytes, as_floats

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from toolindex import VectorCache

    from toolindex_postgres._connection import Connections

__all__ = ["SharedQueryVectors"]


class SharedQueryVectors:
    """The copy's vectors of queries, and behind them the server's.

    A server that cannot be reached has none.

    Args:
        local: Those of the copy.
        connections: The server.
        read_only: Whether nothing is written to the server.
    """

    def __init__(self, local: VectorCache, connections: Connections, *, read_only: bool) -> None:
        self._local = local
        self._connections = connections
        self._read_only = read_only

    def get(
        self, model_id: str, query: str, *, dimensions: int | None = None
    ) -> Sequence[float] | None:
        """Return the vector that a model gave a query, of length 1, or None."""
        vector = self._local.get(model_id, query, dimensions=dimensions)
        if vector is not None:
            return vector
        with suppress(DatabaseError), self._connections.reading() as connection:
            row = connection.execute(
                "SELECT toolindex.query_vector_of(%s, %s, %s)",
                (encoded(model_id), _hash(query), dimensions),
                binary=True,
            ).fetchone()
            return None if row is None or row[0] is None else as_floats(row[0])
        return None

    def put(
        self, model_id: str, vectors: Mapping[str, Sequence[float]], *, used: Collection[str] = ()
    ) -> None:
        """Keep vectors by query, and note which of the kept ones were used."""
        self._local.put(model_id, vectors, used=used)
        if self._read_only or not vectors:
            return
        kept = {
            query: self._local.get(model_id, query, dimensions=len(vector))
            for query, vector in sorted(vectors.items())
        }
        rows = {_hash(query): array("f", it) for query, it in kept.items() if it is not None}
        # They can be had again: a server that is away goes without.
        with suppress(DatabaseError), self._connections.writing() as connection:
            for length in {len(vector) for vector in rows.values()}:
                alike = {key: it for key, it in rows.items() if len(it) == length}
                connection.execute(
                    "SELECT toolindex.keep_query_vectors(%s, %s, %s, %b)",
                    (encoded(model_id), length, list(alike), [*map(as_bytes, alike.values())]),
                )


def _hash(query: str) -> str:
    return hashlib.sha256(query.encode("utf-8", "surrogatepass")).hexdigest()
