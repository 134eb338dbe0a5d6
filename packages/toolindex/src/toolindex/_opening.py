"""Opening one connection: apsw's own SQLite, tuned, with sqlite-vec where it can be loaded."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import apsw

from toolindex._descriptors import are_exhausted
from toolindex._extension import load_sqlite_vec
from toolindex._header import application_id
from toolindex._migrations import APPLICATION_ID, SCHEMA_VERSION, migrate
from toolindex._places import explained, refuse_special_files, refuse_without_locks, without_locks
from toolindex.errors import (
    DamagedDatabaseError,
    DatabaseBusyError,
    DatabaseError,
    ForeignDatabaseError,
    NewerSchemaError,
    TooManyFilesError,
)

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["BUSY_TIMEOUT_MS", "Opened", "open_connection", "translated"]

BUSY_TIMEOUT_MS = 5_000
"""How long a statement waits for a lock that another process holds."""

_RETRY_SECONDS = 0.005
_LOG_BYTES = 32 << 20
_LOCK_FAILURES = (
    apsw.SQLITE_IOERR_LOCK,
    apsw.SQLITE_IOERR_RDLOCK,
    apsw.SQLITE_IOERR_SHMLOCK,
)


class Opened(NamedTuple):
    """A connection, and how it was opened.

    Attributes:
        connection: The connection.
        is_immutable: Whether it reads the file as it lies, however others change it.
        extension_problem: Why sqlite-vec cannot be loaded, or an empty string.
    """

    connection: apsw.Connection
    is_immutable: bool
    extension_problem: str


def open_connection(path: Path, *, read_only: bool) -> Opened:
    """Open a connection to an index, made or brought up to date where that is needed.

    Args:
        path: The database file.
        read_only: Never write, and work on a medium that cannot be written.

    Raises:
        DatabaseError: The file cannot be opened.
        DamagedDatabaseError: It is an index, and broken.
        ForeignDatabaseError: It is something else than an index.
        NewerSchemaError: A later version wrote it.
        TooManyFilesError: This process has too many files open.
    """
    try:
        _refuse_other_formats(path)
        if read_only:
            return _open_read_only(path)
        return _configured(apsw.Connection(str(path)), path)
    except apsw.Error as error:
        raise translated(path, error) from error
    except ValueError as error:
        raise DatabaseError(path, f"SQLite does not open such a path ({error})") from error
    except OSError as error:
        if are_exhausted(error):
            raise TooManyFilesError(path) from error
        raise explained(path, error) from error


def translated(path: Path, error: apsw.Error, *, is_open: bool = False) -> DatabaseError:
    """Give the error of this package for one of the driver's.

    Damage is what the driver says in so many words; see `diagnosed` for what it leaves open.

    Args:
        path: The database file.
        error: What the driver raised.
        is_open: Whether the file was recognised as an index before.
    """
    match error:
        case apsw.NotADBError() | apsw.CorruptError():
            return DamagedDatabaseError(path) if is_open else _broken(path)
        case apsw.FullError():
            return DatabaseError(path, "the disk is full; free some space and run again")
        case apsw.BusyError() | apsw.LockedError():
            return DatabaseBusyError(path)
        case _ if are_exhausted(error):
            return TooManyFilesError(path)
        case apsw.NoMemError():
            return DatabaseError(path, "there is no memory left; end something, then run again")
        case apsw.CantOpenError():
            return DatabaseError(
                path, "cannot be opened; check its permissions, or choose another path"
            )
        case apsw.ReadOnlyError():
            return DatabaseError(
                path, "cannot be written; check its permissions, or choose another path"
            )
        case apsw.IOError() if getattr(error, "extendedresult", 0) in _LOCK_FAILURES:
            return without_locks(path, str(error))
        case apsw.IOError():
            return DatabaseError(path, "cannot be read or written; is the disk full or failing?")
        case _:
            return DatabaseError(path, f"SQLite failed ({error})")


def _open_read_only(path: Path) -> Opened:
    uri = path.absolute().as_uri()
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        connection = apsw.Connection(f"{uri}?mode=ro", flags=flags)
        return _configured(connection, path, read_only=True)
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.FullError, apsw.IOError) as error:
        if are_exhausted(error):
            raise
        # WAL needs a shared-memory file beside the database. Where none can be made, the file is
        # read as it lies, unless its last changes are outside of it; whoever lends the
        # connection has to see to it that the file has not changed since.
        if _has_changes_beside_it(path):
            raise DatabaseError(
                path,
                f"the last changes are in {path.name}-wal, which can only be read where "
                "files can be written; open the index once there",
            ) from None
        connection = apsw.Connection(f"{uri}?immutable=1", flags=flags)
        return _configured(connection, path, read_only=True, is_immutable=True)


def _configured(
    connection: apsw.Connection, path: Path, *, read_only: bool = False, is_immutable: bool = False
) -> Opened:
    try:
        # Closing would move what a killed process left in the log into the file, which
        # is not ours to do before we know whose file it is.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, _has_changes_beside_it(path))
        extension_problem = load_sqlite_vec(connection)
        try:
            _recognise(connection, path)
        except apsw.BusyError:
            # Nobody need wait for a lock that nobody can have.
            refuse_without_locks(path)
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            _recognise(connection, path)
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, False)
        if not read_only:
            # Large pages pay for vectors; the size is fixed by the first write.
            connection.execute("PRAGMA page_size = 16384")
            _switch_to_wal(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")
        migrate(connection, path, read_only=read_only)
    except BaseException:
        connection.close()
        raise
    return Opened(connection, is_immutable, extension_problem)


def _refuse_other_formats(path: Path) -> None:
    refuse_special_files(path)
    # SQLite takes some files of a few bytes for empty databases, and would write over them; and
    # a log beside a file of another kind would be taken for its content.
    with suppress(FileNotFoundError):
        if path.stat().st_size and application_id(path) is None:
            raise ForeignDatabaseError(path)


def _broken(path: Path) -> DatabaseError:
    """Tell whose database SQLite found broken."""
    with suppress(OSError, apsw.Error):
        if application_id(path) == APPLICATION_ID:
            return DamagedDatabaseError(path)
    return ForeignDatabaseError(path)


def _recognise(connection: apsw.Connection, path: Path) -> None:
    # Before anything is written: even a change of journal mode would touch a file
    # that belongs to somebody else.
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    if not tables:
        return
    if connection.pragma("application_id") != APPLICATION_ID:
        raise ForeignDatabaseError(path)
    version = connection.pragma("user_version")
    if version > SCHEMA_VERSION:
        raise NewerSchemaError(path, found=version, supported=SCHEMA_VERSION)


def _switch_to_wal(connection: apsw.Connection) -> None:
    # Of two that make one database at once, SQLite refuses one here without any waiting.
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


def _has_changes_beside_it(path: Path) -> bool:
    log = path.with_name(f"{path.name}-wal")
    with suppress(OSError):  # It comes and goes as others open and close.
        return log.stat().st_size > 0
    return False
