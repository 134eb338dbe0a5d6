"""The right to do one kind of work on a tree, held by one process of all hosts at a time."""

from __future__ import annotations

import time
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING

from toolindex import LeaseHeldError, finish_in_thread
from toolindex.errors import DatabaseError

from toolindex_postgres._connection import KEEPALIVES, lock_key

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from toolindex import WorkLease

    from toolindex_postgres._connection import Connections

__all__ = ["SharedLease"]

_POLL_SECONDS = 0.02
# Each try is a connection of its own.
_TURN_SECONDS = 0.1


class SharedLease:
    """A lease of the copy, and a lock of the server: held by one host, and by one process of it.

    The lock is that of an open transaction, so it is free as soon as its holder ends, however it
    ends, and a pooler does not lose it. While the server cannot be reached the lease is that of the
    copy alone: hosts may do the same work then, but what they write waits for the server anyway.

    Args:
        local: The copy's lease.
        connections: The server.
        tree: The tree.
        purpose: What the work is.
    """

    def __init__(
        self, local: WorkLease, connections: Connections, *, tree: str, purpose: str
    ) -> None:
        self._local = local
        self._connections = connections
        self._key = lock_key("lease", tree, purpose)
        self._held = ExitStack()

    def acquire(self, *, timeout: float) -> bool:
        """Take the lease; 0 tries once."""
        deadline = time.monotonic() + timeout
        if not self._local.acquire(timeout=timeout):
            return False
        is_ours = False
        try:
            with suppress(DatabaseError), ExitStack() as stack:
                connection = stack.enter_context(self._connections.own())
                connection.execute(
                    f"BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0; {KEEPALIVES}"
                )
                while not is_ours:
                    row = connection.execute(
                        "SELECT pg_try_advisory_xact_lock(%s)", (self._key,)
                    ).fetchone()
                    if row is not None and row[0]:
                        self._held = stack.pop_all()
                        is_ours = True
                    elif time.monotonic() >= deadline:
                        return False
                    else:
                        time.sleep(_POLL_SECONDS)
            is_ours = True
        finally:
            if not is_ours:
                self._local.release()
        return True

    def release(self) -> None:
        """Release the lease; nothing happens if it is not held."""
        with suppress(DatabaseError):
            self._held.close()
        self._local.release()

    @asynccontextmanager
    async def turn(self, *, patience: float) -> AsyncGenerator[None]:
        """Hold the lease for a block, waiting for it without holding up a thread.

        Raises:
            LeaseHeldError: Another holds it for longer.
        """
        import asyncio

        deadline = time.monotonic() + patience
        is_ours = False
        try:
            # Noted in the thread that gets it: a cancellation must not lose a lease just got.
            def attempt() -> bool:
                nonlocal is_ours
                is_ours = self.acquire(timeout=0)
                return is_ours

            while not await finish_in_thread(attempt):
                if time.monotonic() > deadline:
                    raise LeaseHeldError(self._connections.where)
                await asyncio.sleep(_TURN_SECONDS)
            yield
        finally:
            if is_ours:
                self.release()
