"""The connections to one index, whose files may be removed or replaced at any moment."""

from __future__ import annotations

from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

import apsw

from toolindex._errors import (
    DamagedDatabaseError,
    DatabaseBusyError,
    DatabaseError,
    NewerSchemaError,
    ToolIndexError,
)
from toolindex._files import DURABLE, explained, is_index, logs_of, refuse_without_locks
from toolindex._lease import RECOVERY_LEASE, Lease
from toolindex._opening import (
    BUSY_TIMEOUT_MS,
    LOG_BYTES,
    open_connection,
    refuse_newer,
    transaction,
)
from toolindex._recovery import diagnosed, restore
from toolindex._rows import UnreadableRowError
from toolindex._vectors import number_rows

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from toolindex._opening import Opened

# Device and inode of the index, and of its durable file; None for a missing file.
Identity = tuple[tuple[int, int] | None, tuple[int, int] | None]

_RECOVERY_SECONDS = 60.0
_OPENINGS = 20


class _FileState(NamedTuple):
    """The file at a path, and what shows whether it has changed."""

    device: int
    inode: int
    size: int
    modified: int
    log_size: int


class _FileStates(NamedTuple):
    """The two files of an index, each None if it is missing."""

    main: _FileState | None
    durable: _FileState | None

    @property
    def identity(self) -> Identity:
        return self.main and self.main[:2], self.durable and self.durable[:2]


class ConnectionPool:
    """The connections to one index, each lent to one thread at a time.

    One connection shared by threads would serialise them, and opening one per statement would load
    the extension each time, so idle connections are kept here for the next borrower. A file that
    was removed or replaced is opened again, or created.

    Args:
        path: The index; its files and their folders are created, unless reading only.
        read_only: Never write, and work on a medium that cannot be written.

    Attributes:
        extension_problem: Why sqlite-vec could last not be loaded, or an empty string.
        durable_problem: Why the durable file was last left out, or an empty string.
    """

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self.path = path
        self._durable = DURABLE.path(path)
        self.read_only: bool = read_only
        self.closed: bool = False
        self.extension_problem: str = ""
        self.durable_problem: str = ""
        self._idle: list[apsw.Connection] = []
        # A connection to a file that was replaced is not lent again.
        self._epoch = 0
        self._files = _FileStates(None, None)
        self._is_immutable = False
        self._damaged: Identity | None = None
        self._suspect = path

    @contextmanager
    def read(self) -> Generator[apsw.Connection]:
        """Lend a connection whose statements all see the same state of the database."""
        with self._lend() as connection, self._wrapped():
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def write(self, *, patience_ms: int | None = None) -> Generator[apsw.Connection]:
        """Lend a connection inside a write transaction, which is committed unless the block raises.

        `patience_ms` is how long to wait for another writer to end, None for the usual time.
        """
        if self.read_only:
            raise DatabaseError(self.path, "the index is open read-only")
        with self._lend() as connection, self._wrapped():
            with transaction(connection, patience_ms=patience_ms):
                refuse_newer(connection, self.path)
                number_rows(connection)
                yield connection
            self._shorten_logs(connection, LOG_BYTES)

    @contextmanager
    def making(self) -> Generator[Lease]:
        """Keep other processes from creating or replacing a database at the path.

        Raises:
            DatabaseBusyError: Another process has been doing so for a minute.
        """
        lease = Lease(self.path, RECOVERY_LEASE)
        with lease.held(timeout=_RECOVERY_SECONDS):
            yield lease

    def close(self) -> None:
        """Close the idle connections; a lent one is closed when it comes back."""
        self.closed = True
        self.drop_idle()

    def damage(self) -> tuple[Identity, Path] | None:
        """Return the identity of the files if they were found damaged, and which one it was."""
        if self._damaged is None or self._look().identity != self._damaged:
            return None
        return self._damaged, self._suspect

    def try_writing(self) -> bool:
        """Switch to writing if the file can now be written; return whether it can."""
        if self.read_only:
            try:
                self._open_writable(self._look()).connection.close()
            except DatabaseError:
                return False
            self.read_only = False
            self.drop_idle()
        return True

    def drop_idle(self) -> None:
        """Close the idle connections; the next borrower gets a new one."""
        self._epoch += 1
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    @contextmanager
    def _lend(self) -> Generator[apsw.Connection]:
        connection, epoch, files = self._take()
        try:
            yield connection
        except (DatabaseError, apsw.Error) as error:
            if isinstance(error, DamagedDatabaseError):
                self._damaged, self._suspect = files, error.path
            # Its caches may be as damaged as the files, or a transaction that could not be rolled
            # back may still be open.
            connection.close()
            if isinstance(error.__cause__, apsw.IOError) and self._look().identity != files:
                # A damaged file was replaced, including its log.
                raise DamagedDatabaseError(self.path) from error
            raise
        except BaseException:
            self._give_back(connection, epoch)
            raise
        self._give_back(connection, epoch)

    def _take(self) -> tuple[apsw.Connection, int, Identity]:
        if self.closed:
            raise DatabaseError(self.path, "the index has been closed")
        for _ in range(_OPENINGS):
            found = self._look()
            if any(map(self._has_changed, self._files, found)):
                self._finish_logs()
                self.drop_idle()
            self._files = found
            epoch, files = self._epoch, found.identity
            with suppress(IndexError):
                return self._idle.pop(), epoch, files
            try:
                return self._open(found), epoch, files
            except DamagedDatabaseError as error:
                # Missing files may have just been created.
                now = self._look()
                now = _FileStates(found.main or now.main, now.durable)
                self._damaged, self._suspect = now.identity, error.path
                raise
            except DatabaseError:
                # Another process may have been replacing it at that moment.
                if found.main is None or self._look().identity == files:
                    raise
        raise DatabaseBusyError(self.path)

    def _open(self, found: _FileStates) -> apsw.Connection:
        opened = self._open_for_reading() if self.read_only else self._open_writable(found)
        if not self.read_only:
            self._shorten_logs(opened.connection, LOG_BYTES // 4)
        self._is_immutable = opened.is_immutable
        self.extension_problem = opened.extension_problem
        return opened.connection

    def _open_for_reading(self) -> Opened:
        try:
            if (damage := self.damage()) is not None and damage[1] == self._durable:
                raise DamagedDatabaseError(self._durable)
            opened, self.durable_problem = open_connection(self.path, read_only=True), ""
            return opened
        except (DatabaseBusyError, NewerSchemaError):
            raise
        except DatabaseError as error:
            if error.where != self._durable:
                raise
            # A search needs nothing in it, and it cannot be replaced here.
            self.durable_problem = str(error)
            return open_connection(self.path, read_only=True, without_durable=True)

    def _open_writable(self, found: _FileStates) -> Opened:
        is_durable_lost = found.durable is None or not found.durable.size
        if found.main is None or (is_durable_lost and is_index(self.path)):
            return self._make()
        try:
            return open_connection(self.path, read_only=False)
        except DatabaseError as error:
            # It is an index without its durable file; its mark may still be in its log.
            if found.durable is not None or error.where != self._durable:
                raise
            return self._make()

    def _make(self) -> Opened:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise explained(self.path, error) from error
        # Not while another process renames a damaged file, which takes several steps.
        with self.making() as lease:
            if lease.obstacle is not None:
                refuse_without_locks(self.path)
            try:
                restore(self.path)
                opened = open_connection(self.path, read_only=False, creates=True)
            except DatabaseError as error:
                if lease.obstacle is None or type(error) is not DatabaseError:
                    raise
                # Why the lock could not be created says more than SQLite's error.
                raise explained(self.path, lease.obstacle) from error
        self._files = self._look()
        return opened

    def _give_back(self, connection: apsw.Connection, epoch: int) -> None:
        if epoch != self._epoch:
            connection.close()
            return
        self._idle.append(connection)
        # Checked after returning it, so that closing at any moment finds the connection.
        if self.closed:
            self.close()

    def _shorten_logs(self, connection: apsw.Connection, longest: int) -> None:
        """Move the logs into their files if one is long, as a killed process may have left it."""
        for log, _ in (logs_of(self.path), logs_of(self._durable)):
            with suppress(OSError):
                if log.stat().st_size > longest:
                    _checkpoint(connection)
                    return

    def _finish_logs(self) -> None:
        """Empty the log of a replaced file, which SQLite would apply to the new file."""
        with suppress(IndexError, apsw.Error):
            connection = self._idle.pop()
            with closing(connection):
                _checkpoint(connection)

    def _look(self) -> _FileStates:
        return _FileStates(self._look_at(self.path), self._look_at(self._durable))

    def _look_at(self, path: Path) -> _FileState | None:
        try:
            status = path.stat()
        except (OSError, ValueError):
            return None
        log_size = 0
        if self._is_immutable:
            with suppress(OSError):
                log_size = logs_of(path)[0].stat().st_size
        size, modified = status.st_size, status.st_mtime_ns
        return _FileState(status.st_dev, status.st_ino, size, modified, log_size)

    def _has_changed(self, before: _FileState | None, found: _FileState | None) -> bool:
        """Return whether idle connections would read another file than the one in place."""
        if before is None or found is None:
            return before is not found
        if self._is_immutable:
            return found != before
        return found[:2] != before[:2] or found.size < before.size

    @contextmanager
    def _wrapped(self) -> Generator[None]:
        try:
            yield
        except apsw.Error as error:
            raise diagnosed(self.path, error) from error
        except (UnicodeDecodeError, UnreadableRowError) as error:
            # SQLite does not validate the text that it returns; only damage makes it invalid.
            raise DamagedDatabaseError(self.path) from error
        except Exception as error:
            # A ranker that uses the connection wraps the driver's error; the index decides whether
            # it means damage or a lock.
            if isinstance(error.__cause__, apsw.Error) and not isinstance(error, ToolIndexError):
                raise diagnosed(self.path, error.__cause__) from error
            raise


def _checkpoint(connection: apsw.Connection) -> None:
    """Move the logs of both files into them, without waiting for readers or writers."""
    connection.set_busy_timeout(0)
    try:
        with suppress(apsw.Error):  # the next write tries again, or the last process to close
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    finally:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
