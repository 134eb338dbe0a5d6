"""Opening the database: apsw's own SQLite, tuned, with sqlite-vec loaded."""

from __future__ import annotations

import os
import queue
import time
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from toolindex.errors import (
    DatabaseBusyError,
    DatabaseError,
    ForeignDatabaseError,
    NewerSchemaError,
    ReadOnlyIndexError,
)

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["APPLICATION_ID", "SCHEMA_VERSION", "ConnectionPool"]

APPLICATION_ID = 0x7079746C
"""SQLite's mark in the file header that says whose database this is (`pytl`)."""

SCHEMA_VERSION = 1
"""The newest schema this version reads; a database's own is its `user_version`."""

_BUSY_TIMEOUT_MS = 5_000
_RETRY_SECONDS = 0.005
_MMAP_BYTES = 1 << 30
_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_DAMAGED = "the index is damaged; delete the file and index again"


class ConnectionPool:
    """The connections to one database file, each lent to one thread at a time.

    One connection shared by threads would serialise them, and opening one per statement
    would load the extension again each time, so idle connections wait here for the next
    borrower.

    Args:
        path: The database file; it is created, with the folders above it, unless reading only.
        read_only: Never write, and work on a medium that cannot be written.

    Raises:
        DatabaseError: The file cannot be opened.
        ForeignDatabaseError: The file is something else than an index.
        NewerSchemaError: A later version wrote it.
    """

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self.path = path
        self.read_only = read_only
        self._idle: queue.LifoQueue[apsw.Connection] = queue.LifoQueue()
        self._closed = False
        if not read_only:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise DatabaseError(path, f"its folder cannot be made ({error})") from error
        self._idle.put(self._open())

    @contextmanager
    def read(self) -> Generator[apsw.Connection]:
        """Lend a connection whose statements all see one state of the database."""
        with self._lend() as connection, self._wrapped():
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def write(self) -> Generator[apsw.Connection]:
        """Lend a connection inside a write transaction, kept if the block ends well.

        Raises:
            ReadOnlyIndexError: The pool is for reading only.
        """
        if self.read_only:
            raise ReadOnlyIndexError(self.path)
        with self._lend() as connection, self._wrapped():
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                # A full disk or a corrupt page may have ended the transaction already.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the idle connections; a lent one is closed when it comes back."""
        self._closed = True
        while True:
            try:
                self._idle.get_nowait().close()
            except queue.Empty:
                return

    @contextmanager
    def _lend(self) -> Generator[apsw.Connection]:
        connection = self._take()
        try:
            yield connection
        finally:
            self._idle.put(connection)
            # Asked after giving back, so that closing at any moment finds the connection.
            if self._closed:
                self.close()

    def _take(self) -> apsw.Connection:
        if self._closed:
            raise DatabaseError(self.path, "the index has been closed")
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            return self._open()

    @contextmanager
    def _wrapped(self) -> Generator[None]:
        try:
            yield
        except apsw.Error as error:
            raise _translated(self.path, error) from error
        except UnicodeDecodeError as error:
            # SQLite does not look at the text that it gives back; only damage breaks it.
            raise DatabaseError(self.path, _DAMAGED) from error
        except Exception as error:
            # Whoever was lent the connection may have wrapped what the driver raised.
            if isinstance(error.__cause__, apsw.CorruptError | apsw.BusyError | apsw.IOError):
                raise _translated(self.path, error.__cause__) from error
            raise

    def _open(self) -> apsw.Connection:
        self._refuse_other_formats()
        try:
            if not self.read_only:
                return self._configured(apsw.Connection(str(self.path)))
            return self._open_read_only()
        except apsw.Error as error:
            raise _translated(self.path, error) from error

    def _open_read_only(self) -> apsw.Connection:
        uri = self.path.absolute().as_uri()
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        try:
            return self._configured(apsw.Connection(f"{uri}?mode=ro", flags=flags))
        except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.FullError, apsw.IOError):
            # WAL needs a shared-memory file beside the database. Where none can be made,
            # nobody can be writing either, so the file may be read as it lies, unless a killed
            # process left its last changes outside of it.
            if self._has_changes_beside_it():
                raise DatabaseError(
                    self.path,
                    f"the last changes are in {self.path.name}-wal, which can only be read where "
                    "files can be written; open the index once there",
                ) from None
            return self._configured(apsw.Connection(f"{uri}?immutable=1", flags=flags))

    def _configured(self, connection: apsw.Connection) -> apsw.Connection:
        try:
            # Closing would move what a killed process left in the log into the file, which
            # is not ours to do before we know whose file it is.
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, self._has_changes_beside_it())
            connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
            connection.enable_load_extension(True)
            connection.load_extension(_sqlite_vec_path())
            connection.enable_load_extension(False)
            self._recognise(connection)
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, False)
            if not self.read_only:
                # Large pages pay for vectors; the size is fixed by the first write.
                connection.execute("PRAGMA page_size = 16384")
                _switch_to_wal(connection)
                connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA mmap_size = {_MMAP_BYTES}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _refuse_other_formats(self) -> None:
        # os.path gives an answer for every path, pathlib raises for some.
        if os.path.exists(self.path) and not os.path.isfile(self.path):  # noqa: PTH110, PTH113
            raise DatabaseError(self.path, "this is a folder or a device; give the path of a file")
        # SQLite takes some files of a few bytes for empty databases, and would write over them.
        start = b""
        # What cannot be read here, SQLite refuses in its own words.
        with suppress(OSError), self.path.open("rb") as file:
            start = file.read(_HEADER_BYTES)
        if start and not (len(start) == _HEADER_BYTES and start.startswith(_MAGIC)):
            raise ForeignDatabaseError(self.path)

    def _recognise(self, connection: apsw.Connection) -> None:
        # Before anything is written: even a change of journal mode would touch a file
        # that belongs to somebody else.
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
        if not tables:
            return
        if connection.pragma("application_id") != APPLICATION_ID:
            raise ForeignDatabaseError(self.path)
        version = connection.pragma("user_version")
        if version > SCHEMA_VERSION:
            raise NewerSchemaError(self.path, found=version, supported=SCHEMA_VERSION)

    def _has_changes_beside_it(self) -> bool:
        log = self.path.with_name(f"{self.path.name}-wal")
        with suppress(OSError):  # It comes and goes as others open and close.
            return log.stat().st_size > 0
        return False


def _switch_to_wal(connection: apsw.Connection) -> None:
    # Of two that make one database at once, SQLite refuses one here without any waiting.
    deadline = time.monotonic() + _BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


def _sqlite_vec_path() -> str:
    # Importing the package would import numpy with it, a tenth of a second, for this one path.
    spec = find_spec("sqlite_vec")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("the package sqlite-vec is not installed", name="sqlite_vec")
    return str(Path(spec.submodule_search_locations[0], "vec0"))


def _translated(path: Path, error: apsw.Error) -> DatabaseError:
    match error:
        case apsw.NotADBError():
            return ForeignDatabaseError(path)
        case apsw.FullError():
            return DatabaseError(path, "the disk is full; free some space and run again")
        case apsw.BusyError():
            return DatabaseBusyError(path)
        case apsw.CantOpenError():
            return DatabaseError(
                path, "cannot be opened; check its permissions, or choose another path"
            )
        case apsw.ReadOnlyError():
            return DatabaseError(
                path, "cannot be written; check its permissions, or choose another path"
            )
        case apsw.CorruptError():
            return DatabaseError(path, _DAMAGED)
        case apsw.IOError():
            return DatabaseError(path, "cannot be read or written; is the disk full or failing?")
        case _:
            return DatabaseError(path, f"SQLite failed ({error})")
