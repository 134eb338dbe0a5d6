"""The right to do one kind of work on a tree, held by one process of all hosts at a time."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import psycopg.errors
from toolindex import LeaseHeldError, finish_in_thread
from toolindex.errors import DatabaseError

from toolindex_postgres._pool import SETTINGS, UNLIMITED
from toolindex_postgres._texts import encoded

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from toolindex import WorkLease

    from toolindex_postgres._connection import Connection
    from toolindex_postgres._pool import Connections

_FIRST_DELAY, _LONGEST_DELAY = 0.02, 1.0
_EMBEDDING = "embed-"
_BEGIN = f"BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0; {SETTINGS}; {UNLIMITED}"
_OF = "(SELECT %s, CASE WHEN %s THEN current_user ELSE '' END, %s)"
MAKE = f"INSERT INTO toolindex.lease {_OF} ON CONFLICT DO NOTHING"
LOCK = f"SELECT FROM toolindex.lease WHERE (tree, role, purpose) = {_OF} FOR UPDATE SKIP LOCKED"
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

    Args:
        local: The copy's lease.
        connections: The server.
        tree: The tree.
        purpose: The kind of work; `embed-…` is done for one tree of a role at a time.
    """

    def __init__(
        self, local: WorkLease, connections: Connections, *, tree: str, purpose: str
    ) -> None:
        self._local = local
        self._connections = connections
        # Trees of one role reuse each other's vectors, so only one of them at a time embeds and
        # pays.
        is_shared = purpose.startswith(_EMBEDDING)
        self._key = "" if is_shared else encoded(tree), is_shared, encoded(purpose)
        self._connection: Connection | None = None

    def acquire(self, *, timeout: float) -> bool:
        """Take the lease; 0 tries once.

        Raises:
            DatabaseError: The server is running and refuses, for example because no connection is
                free.
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
        """Release the lease; nothing happens if it is not held."""
        self._end()
        self._local.release()

    @asynccontextmanager
    async def acquire_async(self, *, patience: float) -> AsyncGenerator[None]:
        """Hold the lease for a block, waiting for it without blocking a thread.

        Raises:
            LeaseHeldError: Another holds it for longer.
            DatabaseError: As for `acquire`.
        """
        import asyncio

        deadline = time.monotonic() + patience
        delay = _FIRST_DELAY
        async with self._local.acquire_async(patience=patience):
            try:
                while not await finish_in_thread(self._try):
                    if time.monotonic() > deadline:
                        raise LeaseHeldError(self._connections.where)
                    await asyncio.sleep(delay)
                    delay = min(2 * delay, _LONGEST_DELAY)
                yield
            finally:
                # The server may be silent, so the event loop does not wait for its reply.
                await finish_in_thread(self._end)

    def _try(self) -> bool:
        """Take the lease, if nobody else has it; return whether work may begin.

        It may also begin if the server is unreachable.
        """
        patient = False
        while True:
            try:
                return self._lock(patient)
            except DatabaseError:
                if not self._connections.is_there():
                    return True
                # A server without a free connection is running, and other hosts may be working. But
                # a server that was stopped, or has just ended a connection, may be back.
                if patient:
                    raise
                patient = True

    def _lock(self, patient: bool) -> bool:
        """Lock the row on the server, and keep the transaction only if that worked."""
        connection = self._connections.begin(_BEGIN, patient=patient)
        try:
            with self._connections.explaining():
                is_ours = bool(connection.execute(LOCK, self._key).rowcount)
                # Committed at once, because others would wait for an uncommitted row.
                if not is_ours and connection.execute(MAKE, self._key).rowcount:
                    connection.execute("COMMIT")
                    connection.execute(_BEGIN)
                    is_ours = bool(connection.execute(LOCK, self._key).rowcount)
            if is_ours:
                self._connection = connection
        except DatabaseError as error:
            if not isinstance(error.__cause__, _REFUSED):
                raise
            return True
        finally:
            if self._connection is None:
                self._connections.end(connection)
        return is_ours

    def _end(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._connections.end(connection)
