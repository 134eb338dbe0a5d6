"""The right to do one kind of work on a tree, held by one process of all hosts at a time."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from toolindex import LeaseHeldError, finish_in_thread
from toolindex.errors import DatabaseError

from toolindex_postgres._connection import KEEPALIVES, lock_key

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from toolindex import WorkLease

    from toolindex_postgres._connection import Connection, Connections

_FIRST_DELAY, _LONGEST_DELAY = 0.02, 1.0
_EMBEDDING = "embed-"


class SharedLease:
    """A lease of the copy and a lock on the server: held by one process of one host.

    The lock belongs to an open transaction, so it is released as soon as its holder ends, in any
    way, and a pooler does not lose it. While the server cannot be reached, only the copy's lease is
    held. Hosts may then do the same work twice, but they cannot store its results without the
    server.

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
        self._names = tree, purpose
        self._connection: Connection | None = None

    def acquire(self, *, timeout: float) -> bool:
        """Take the lease; 0 tries once.

        Raises:
            DatabaseError: The server is there, and refuses: it has no connection to spare, say.
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
    async def turn(self, *, patience: float) -> AsyncGenerator[None]:
        """Hold the lease for a block, waiting for it without blocking a thread.

        Raises:
            LeaseHeldError: Another holds it for longer.
            DatabaseError: As for `acquire`.
        """
        import asyncio

        deadline = time.monotonic() + patience
        delay = _FIRST_DELAY
        async with self._local.turn(patience=patience):
            try:
                while not await finish_in_thread(self._try):
                    if time.monotonic() > deadline:
                        raise LeaseHeldError(self._connections.where)
                    await asyncio.sleep(delay)
                    delay = min(2 * delay, _LONGEST_DELAY)
                yield
            finally:
                self._end()

    def _try(self) -> bool:
        """Return whether nobody else has the lease, and it is ours while the server is there."""
        patient = False
        while True:
            try:
                self._lock(patient)
            except DatabaseError:
                if not self._connections.is_refused():
                    return True
                # A server without a free connection is running, and other hosts may be working.
                # But one that was away, or has just ended a connection, may be there again.
                if patient:
                    raise
                patient = True
            else:
                return self._connection is not None

    def _lock(self, patient: bool) -> None:
        """Request the server's lock, and keep the transaction only if it was acquired."""
        connection = self._connections.begin(
            f"BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0; {KEEPALIVES}",
            patient=patient,
        )
        try:
            statement = "SELECT pg_try_advisory_xact_lock(%s)"
            with self._connections.explaining():
                row = connection.execute(statement, (self._key(connection),)).fetchone()
            if row is not None and row[0]:
                self._connection = connection
        finally:
            if self._connection is None:
                self._connections.end(connection)

    def _key(self, connection: Connection) -> int:
        tree, purpose = self._names
        # Trees of one role reuse each other's vectors, so only one of them at a time embeds and
        # pays.
        is_shared = purpose.startswith(_EMBEDDING)
        return lock_key(
            "lease", *(("role", connection.info.user) if is_shared else (tree,)), purpose
        )

    def _end(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._connections.end(connection)
