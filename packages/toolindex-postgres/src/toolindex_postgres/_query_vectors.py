"""Vectors of queries, shared by hosts: a query is only embedded once for all of them."""

from __future__ import annotations

import hashlib
from array import array
from contextlib import suppress
from typing import TYPE_CHECKING

from toolindex.errors import DatabaseError

from toolindex_postgres._rows import as_bytes, encoded, vector_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from toolindex import VectorCache

    from toolindex_postgres._connections import Connections


class SharedQueryVectors:
    """The copy's vectors of queries, and then the server's.

    If the server cannot be reached, only the copy's are used.

    Args:
        local: The copy's vectors.
        connections: The server.
        tree: The tree, whose hosts share them.
        read_only: Whether nothing is written to the server.
    """

    def __init__(
        self, local: VectorCache, connections: Connections, *, tree: str, read_only: bool
    ) -> None:
        self._local = local
        self._connections = connections
        self._tree = encoded(tree)
        self._read_only = read_only

    def get(
        self, model_id: str, query: str, *, dimensions: int | None = None
    ) -> Sequence[float] | None:
        """Return a model's unit vector of a query, or None."""
        vector = self._local.get(model_id, query, dimensions=dimensions)
        if vector is not None:
            return vector
        with suppress(DatabaseError, ValueError):
            row = self._connections.ask(
                "SELECT v FROM toolindex.query_vector JOIN toolindex.tree USING (tree_id) "
                "WHERE name = %s AND model = %s AND query_hash = %s",
                *(self._tree, encoded(model_id), _hash(query)),
            )
            # A vector that cannot be read is replaced by the next.
            found = None if row is None else vector_of(row[0])
            return found if found is None or dimensions in {None, len(found)} else None
        return None

    def put(
        self, model_id: str, vectors: Mapping[str, Sequence[float]], *, used: Collection[str] = ()
    ) -> None:
        """Store vectors by query, and record which stored ones were used."""
        self._local.put(model_id, vectors, used=used)
        if self._read_only or not (vectors or used):
            return
        kept = {
            query: self._local.get(model_id, query, dimensions=len(vector))
            for query, vector in sorted(vectors.items())
        }
        rows = {_hash(query): as_bytes(array("f", it)) for query, it in kept.items() if it}
        # They can be computed again, so nothing is queued for an unreachable server.
        with suppress(DatabaseError), self._connections.writing(patient=False) as connection:
            if rows:
                connection.execute(
                    "INSERT INTO toolindex.query_vector (tree_id, model, query_hash, v) "
                    "SELECT tree_id, %s, given.* FROM toolindex.tree, "
                    "unnest(%s::text[], %b::bytea[]) AS given WHERE name = %s "
                    "ON CONFLICT (tree_id, model, query_hash) "
                    "DO UPDATE SET v = excluded.v, used_at = excluded.used_at",
                    (encoded(model_id), list(rows), list(rows.values()), self._tree),
                )
            connection.execute(
                "UPDATE toolindex.query_vector SET used_at = now() WHERE model = %s "
                "AND query_hash = ANY (%s) AND used_at < now() - interval '1 day' AND tree_id = "
                "(SELECT tree_id FROM toolindex.tree WHERE name = %s)",
                (encoded(model_id), sorted(map(_hash, used)), self._tree),
            )


def _hash(query: str) -> str:
    return hashlib.sha256(query.encode("utf-8", "surrogatepass")).hexdigest()
