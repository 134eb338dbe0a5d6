"""Leases: the right to do one kind of work, held by one process at a time."""

from __future__ import annotations

import os
import time
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

from toolindex._errors import DatabaseBusyError, TooManyFilesError
from toolindex._files import NO_LOCKS, are_exhausted

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from pathlib import Path

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_POLL_SECONDS = 0.02
_NAME_LENGTH = 12
RECOVERY_LEASE = "rescue"
"""The purpose of creating or replacing the files of an index."""


async def finish_in_thread(function: Callable[[*Ts], T], *arguments: *Ts) -> T:
    """Run a function in a worker thread; a cancellation waits until it has ended.

    Otherwise the thread could still use what the caller closes or releases.
    """
    # Importing it takes as long as the whole index, which is mostly used without it.
    import asyncio

    # This is not a task, because tasks are cancelled when the loop ends, but threads continue.
    future = asyncio.get_running_loop().run_in_executor(None, function, *arguments)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        while not future.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({future})
        # Retrieved, so that asyncio does not report it as never retrieved.
        future.exception()
        raise


class Lease:
    """A lock among processes for one purpose on one database.

    The operating system holds it, so it is free as soon as its holder ends, however that ends: it
    does not expire, and no clock can be wrong. If files cannot be locked or the lock file cannot be
    created, everybody gets the lease: the database's own locks still protect it, but work may be
    done twice.

    The lock file exists while the lease is held; after a kill it stays until the next holder
    releases the lease.

    Args:
        database: The database; the lock is a file beside it.
        purpose: What the work is; different purposes do not wait for each other.

    Attributes:
        obstacle: Why the lease was last acquired without a lock, or None.

    Raises:
        TooManyFilesError: This process has too many files open.
    """

    def __init__(self, database: Path, purpose: str) -> None:
        try:
            # Importing it (with asyncio and more) takes as long as importing everything else.
            from filelock import FileLock
        except (OSError, ImportError) as error:
            if are_exhausted(error):
                raise TooManyFilesError(database) from error
            raise
        self.obstacle: OSError | None = None
        self._database = database
        name = purpose
        if not (purpose.isascii() and purpose.isalnum() and len(purpose) <= _NAME_LENGTH):
            from hashlib import sha256

            name = sha256(purpose.encode("utf-8", "surrogatepass")).hexdigest()[:_NAME_LENGTH]
        self._lock = FileLock(
            database.with_name(f"{database.name}-{name}.lock"),
            thread_local=False,
            fallback_to_soft=False,
            poll_interval=_POLL_SECONDS,
        )

    def acquire(self, *, timeout: float) -> bool:
        from filelock import Timeout

        self.obstacle = None
        try:
            with suppress(Timeout):
                self._lock.acquire(timeout=0)
                return True
            # In some places, such as /proc, no file can be created, which filelock treats as
            # another holder.
            with suppress(FileExistsError):
                os.close(os.open(self._lock.lock_file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644))
            self._lock.acquire(timeout=timeout)
        except Timeout:
            return False
        except (OSError, NotImplementedError) as error:
            # This is temporary, and others may hold the lease.
            if are_exhausted(error):
                raise TooManyFilesError(self._database) from error
            self.obstacle = error if isinstance(error, OSError) else OSError(str(error))
            if self.obstacle.errno in NO_LOCKS:
                self._remove_file()
        return True

    @asynccontextmanager
    async def acquire_async(self, *, patience: float) -> AsyncGenerator[None]:
        import asyncio

        deadline = time.monotonic() + patience
        try:
            # The thread records the result, so that a cancellation cannot lose a lease just
            # acquired.
            while not await finish_in_thread(lambda: self.acquire(timeout=0)):
                if time.monotonic() > deadline:
                    raise DatabaseBusyError(self._database)
                await asyncio.sleep(_POLL_SECONDS)
            yield
        finally:
            self.release()

    def release(self) -> None:
        if self._lock.lock_counter == 1:
            # Removed while locked: a process that has just opened the same file sees that it no
            # longer has a name, and creates another. On Windows, open files cannot be removed.
            self._remove_file()
        self._lock.release()

    def _remove_file(self) -> None:
        with suppress(OSError):
            os.unlink(self._lock.lock_file)  # noqa: PTH108 - a path of any kind

    @contextmanager
    def held(self, *, timeout: float) -> Generator[None]:
        """Hold the lease for a block; raise `DatabaseBusyError` if another holds it for longer."""
        if not self.acquire(timeout=timeout):
            raise DatabaseBusyError(self._database)
        try:
            yield
        finally:
            self.release()
