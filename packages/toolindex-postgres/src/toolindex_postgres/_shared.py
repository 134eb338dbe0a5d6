"""What hosts share besides a tree: the right to do some work, and vectors of queries."""

from __future__ import annotations

import hashlib
import time
from array import array
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import psycopg.errors
from toolindex import DatabaseBusyError, DatabaseError, finish_in_thread

from toolindex_postgres._connections import BEGIN_UNLIMITED
from toolindex_postgres._rows import as_bytes, encoded, vector_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Mapping, Sequence

    from toolindex import ToolStore

    from toolindex_postgres._connections import Connection, Connections

_FIRST_DELAY, _LONGEST_DELAY = 0.02, 1.0
_EMBEDDING = "embed-"
_OF = "(SELECT %s, CASE WHEN %s THEN current_user ELSE '' END, %s)"
_MAKE = f"INSERT INTO toolindex.lease {_OF} ON CONFLICT DO NOTHING"
_LOCK = f"SELECT FROM toolindex.lease WHERE (tree, role, purpose) = {_OF} FOR UPDATE SKIP LOCKED"
# A server that refuses a lease for these reasons also refuses the results of the work.
_REFUSED = (
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.UndefinedTable,
)


class SharedLease:
    """A lease of the copy and a lock on the server, held by one process of one host.

    A row is locked, for which a role needs the right to write the tree. The lock belongs to an open
    transaction, so it is released when its holder ends in any way, and it works behind a pooler.
    While the server cannot be reached, only the copy's lease is held. Hosts may then do the same
    work twice, but they cannot store its results without the server.

    Work of the purpose `embed-…` is done for one tree of a role at a time.
    """

    def __init__(
        self, copy: ToolStore, connections: Connections | None, *, tree: str, purpose: str
    ) -> None:
        self._local = copy.lease(purpose)
        self._connections = connections
        self._where = copy.where if connections is None else connections.where
        # Trees of one role reuse each other's vectors, so only one of them at a time embeds and
        # pays.
        is_shared = purpose.startswith(_EMBEDDING)
        self._key = "" if is_shared else encoded(tree), is_shared, encoded(purpose)
        self._connection: Connection | None = None

    def acquire(self, *, timeout: float) -> bool:
        """Take the lease; 0 tries once.

        Raises:
            DatabaseError: The server refuses, for example because no connection is free.
        """
        deadline = time.monotonic() + timeout
        delay = _FIRST_DELAY
        if not self._local.acquire(timeout=timeout):
            return False
        is_ours = False
        try:
            while not (is_ours := self._try()) and time.monotonic() < deadline:
                time.sleep(delay)
                delay = min(2 * delay, _LONGEST_DELAY)
        finally:
            if not is_ours:
                self.release()
        return is_ours

    def release(self) -> None:
        self._end()
        self._local.release()

    @asynccontextmanager
    async def acquire_async(self, *, patience: float) -> AsyncGenerator[None]:
        """Hold the lease for a block, waiting for it without blocking a thread.

        Raises:
            DatabaseBusyError: Another holds it for longer.
            DatabaseError: As for `acquire`.
        """
        import asyncio

        deadline = time.monotonic() + patience
        delay = _FIRST_DELAY
        async with self._local.acquire_async(patience=patience):
            try:
                while not await finish_in_thread(self._try):
                    if time.monotonic() > deadline:
                        raise DatabaseBusyError(self._where)
                    await asyncio.sleep(delay)
                    delay = min(2 * delay, _LONGEST_DELAY)
                yield
            finally:
                # The server may be silent, so the event loop does not wait for its reply.
                await finish_in_thread(self._end)

    def _try(self) -> bool:
        """Return whether work may begin: the lease was free, or the server is unreachable."""
        if self._connections is None:
            return True
        patient = False
        while True:
            try:
                return self._lock(self._connections, patient)
            except DatabaseError:
                if not self._connections.is_there():
                    return True
                # A server without a free connection is running, and other hosts may be working. But
                # a server that was stopped, or has just ended a connection, may be back.
                if patient:
                    raise
                patient = True

    def _lock(self, connections: Connections, patient: bool) -> bool:
        """Lock the row on the server, and keep the transaction only if that worked."""
        connection = connections.begin(BEGIN_UNLIMITED, patient=patient)
        try:
            with connections.explaining():
                is_ours = bool(connection.execute(_LOCK, self._key).rowcount)
                # Committed at once, because others would wait for an uncommitted row.
                if not is_ours and connection.execute(_MAKE, self._key).rowcount:
                    connection.execute("COMMIT")
                    connection.execute(BEGIN_UNLIMITED)
                    is_ours = bool(connection.execute(_LOCK, self._key).rowcount)
            if is_ours:
                self._connection = connection
        except DatabaseError as error:
            if not isinstance(error.__cause__, _REFUSED):
                raise
            return True
        finally:
            if self._connection is None:
                connections.end(connection)
        return is_ours

    def _end(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and self._connections is not None:
            self._connections.end(connection)


class SharedQueryVectors:
    """The copy's vectors of queries, and then the server's.

    If the server cannot be reached, only the copy's are used.
    """

    def __init__(
        self, copy: ToolStore, connections: Connections, *, tree: str, read_only: bool
    ) -> None:
        self._local = copy.query_vectors
        self._connections = connections
        self._tree = encoded(tree)
        self._read_only = read_only

    def get(
        self, model_id: str, query: str, *, dimensions: int | None = None
    ) -> Sequence[float] | None:
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
