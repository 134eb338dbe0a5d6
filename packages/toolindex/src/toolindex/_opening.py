"""Opening a connection: apsw's own SQLite, tuned, with sqlite-vec if it can be loaded.

A new file gets its schema, and an older one is migrated.
"""

from __future__ import annotations

import re
import time
from contextlib import closing, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import apsw

from toolindex._errors import (
    DamagedDatabaseError,
    DatabaseBusyError,
    DatabaseError,
    NewerSchemaError,
    TooManyFilesError,
)
from toolindex._files import (
    DURABLE,
    FILES,
    INDEX,
    are_exhausted,
    explained,
    logs_of,
    recognise,
    refuse_other_formats,
    refuse_without_locks,
    unreadable,
    without_locks,
)
from toolindex._vectors import agree, number_rows, reconcile

if TYPE_CHECKING:
    from collections.abc import Generator

    from toolindex._files import DatabaseFile

BUSY_TIMEOUT_MS = 5_000
"""How long a statement waits for a lock that another process holds."""

_RETRY_SECONDS = 0.005
LOG_BYTES = 4 << 20
"""Longer logs are moved into their files; SQLite itself waits for a thousand pages (16 MB)."""
# Large pages make vectors faster; the size is fixed by the first write.
_PAGE_BYTES = 16384
# SQLite's messages about a header with invalid versions, which it does not call damage.
_BROKEN_HEADER = re.compile("unsupported file format|must use the same text encoding")
_LOCK_FAILURES = (
    apsw.SQLITE_IOERR_LOCK,
    apsw.SQLITE_IOERR_RDLOCK,
    apsw.SQLITE_IOERR_SHMLOCK,
)


class Opened(NamedTuple):
    """A connection, and how it was opened.

    Attributes:
        is_immutable: Whether it reads the files as they are, without noticing changes.
        extension_problem: Why sqlite-vec cannot be loaded, or an empty string.
    """

    connection: apsw.Connection
    is_immutable: bool
    extension_problem: str


def open_connection(
    index: Path, *, read_only: bool, creates: bool = False, without_durable: bool = False
) -> Opened:
    """Open a connection to an index, which is migrated if necessary.

    The durable file is attached as `durable`. A table name without a schema refers to the only
    table of that name, in either file.

    Args:
        index: The index.
        read_only: Never write, so that it works on a medium that cannot be written.
        creates: Create missing files. The caller must hold the lease for creating files:
            otherwise, another process that is renaming a damaged file could rename the log of the
            new one, too.
        without_durable: When reading only, attach an empty database instead of that file.

    Raises:
        DatabaseError: A file cannot be opened; its subclasses say why.
    """
    with _explained(index):
        if read_only:
            return _open_read_only(index, (INDEX,) if without_durable else FILES)
        try:
            return _open_writable(index, creates=creates)
        except (apsw.CantOpenError, apsw.ReadOnlyError) as error:
            if not are_exhausted(error):
                # An index of an older version cannot be read either, which says more.
                with suppress(apsw.Error):
                    _open_read_only(index, FILES).connection.close()
            raise


def open_alone(index: Path, file: DatabaseFile) -> apsw.Connection:
    """Open a single file of an index read-only, whatever its version."""
    with _explained(index, file):
        return _open_read_only(index, (file,), attaches=False).connection


def open_durable(path: Path, *, creates: bool = True) -> apsw.Connection:
    """Open only a durable file, which is migrated if necessary.

    Raises:
        apsw.Error: It cannot be written.
        DatabaseError: It is damaged, another program's, or of a later version.
    """
    connection = apsw.Connection(str(path), flags=_writable(creates=creates))
    try:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        _tune(connection, "main")
        migrate(connection, path, DURABLE, read_only=False)
    except BaseException:
        connection.close()
        raise
    return connection


def load_sqlite_vec(connection: apsw.Connection) -> str:
    """Load sqlite-vec into a connection.

    Returns:
        Why this machine cannot load it, or an empty string.

    Raises:
        apsw.Error: The process has too many open files to find out.
        OSError: The same.
    """
    try:
        # Importing the package for its path would also import numpy, which takes a tenth of a
        # second.
        spec = find_spec("sqlite_vec")
        if spec is None or not spec.submodule_search_locations:
            return "the package sqlite-vec is not installed"
        connection.enable_load_extension(True)
        try:
            connection.load_extension(str(Path(spec.submodule_search_locations[0], "vec0")))
        finally:
            connection.enable_load_extension(False)
    except (apsw.Error, ImportError, AttributeError, ValueError) as error:
        if are_exhausted(error):
            raise
        return str(error).removeprefix(f"{type(error).__name__}: ")
    return ""


def translated(
    index: Path, error: apsw.Error, file: DatabaseFile = INDEX, *, is_open: bool = False
) -> DatabaseError:
    """Translate the driver's error to one of this package.

    Only explicit errors count as damage here; see `diagnosed` for ambiguous ones. `is_open` tells
    whether the file was already recognised as ours.
    """
    path = file.path(index)
    match error:
        case apsw.NotADBError() | apsw.CorruptError():
            return DamagedDatabaseError(path) if is_open else unreadable(index, file)
        case apsw.SQLError() if _BROKEN_HEADER.search(str(error)):
            return unreadable(index, file)
        case apsw.FullError():
            return DatabaseError(path, "the disk is full; free some space and run it again")
        case apsw.BusyError() | apsw.LockedError():
            return DatabaseBusyError(path)
        case _ if are_exhausted(error):
            return TooManyFilesError(path)
        case apsw.NoMemError():
            return DatabaseError(path, "out of memory; close something, and run it again")
        case apsw.CantOpenError() | apsw.ReadOnlyError():
            what = "opened" if isinstance(error, apsw.CantOpenError) else "written"
            message = f"cannot be {what}; check its permissions, or choose another path"
            return DatabaseError(path, message)
        case apsw.IOError() if getattr(error, "extendedresult", 0) in _LOCK_FAILURES:
            return without_locks(path, str(error))
        case apsw.IOError():
            return DatabaseError(path, "cannot be read or written; is the disk full or failing?")
        case _:
            return DatabaseError(path, f"SQLite failed ({error})")


@contextmanager
def _explained(index: Path, file: DatabaseFile = INDEX) -> Generator[None]:
    path = file.path(index)
    try:
        yield
    except apsw.Error as error:
        raise translated(index, error, file) from error
    except ValueError as error:
        raise DatabaseError(path, f"SQLite cannot open this path ({error})") from error
    except OSError as error:
        if are_exhausted(error):
            raise TooManyFilesError(path) from error
        raise explained(path, error) from error


def _open_writable(index: Path, *, creates: bool) -> Opened:
    refuse_other_formats(index, INDEX)
    # SQLite uses the same flags for the attached file.
    connection = apsw.Connection(str(index), flags=_writable(creates=creates))
    try:
        # Closing would move a killed process's log into the file, which must not happen before it
        # is known to be ours.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, _has_log(index))
        extension_problem = load_sqlite_vec(connection)
        _recognise(connection, index, INDEX)
        _attach(connection, index, creates=creates)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, False)
        if connection.readonly(DURABLE.schema) and not connection.readonly("main"):
            # Otherwise only the first vector would reveal it.
            raise translated(index, apsw.ReadOnlyError(), DURABLE)
        _tune(connection, *(file.schema for file in FILES))
        migrate(connection, index, read_only=False)
        if not extension_problem and not agree(connection):
            # If another process is writing, it has reconciled them, or the next to open them will.
            with suppress(apsw.BusyError), transaction(connection):
                if not agree(connection):
                    reconcile(connection)
    except BaseException:
        connection.close()
        raise
    return Opened(connection, is_immutable=False, extension_problem=extension_problem)


def _writable(*, creates: bool) -> int:
    return apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if creates else 0)


def _recognise(connection: apsw.Connection, index: Path, file: DatabaseFile) -> None:
    try:
        recognise(connection, index, file, schema="main")
    except apsw.BusyError:
        # Waiting is pointless if files cannot be locked at all.
        refuse_without_locks(file.path(index))
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        recognise(connection, index, file, schema="main")
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)


def _attach(connection: apsw.Connection, index: Path, *, creates: bool) -> None:
    path = DURABLE.path(index)
    with _explained(index, DURABLE):
        refuse_other_formats(index, DURABLE)
        connection.execute("ATTACH ? AS durable", (str(path),))
        recognise(connection, index, DURABLE)
        if connection.pragma("user_version", schema=DURABLE.schema) != DURABLE.version:
            # Unqualified names in its statements would refer to the index.
            connection.execute("DETACH durable")
            open_durable(path, creates=creates).close()
            connection.execute("ATTACH ? AS durable", (str(path),))
        _check_tables(connection, path, DURABLE, DURABLE.schema)


def _open_read_only(
    index: Path, files: tuple[DatabaseFile, ...], *, attaches: bool = True
) -> Opened:
    try:
        return _opened_as(index, files, attaches=attaches, is_immutable=False)
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.FullError, apsw.IOError) as error:
        if are_exhausted(error):
            raise
        # WAL needs a shared-memory file beside the database. If none can be created, the file is
        # read as it is, unless the log has later changes; the pool has to check that the file has
        # not changed since.
        for path in (file.path(index) for file in files):
            if _has_log(path):
                raise DatabaseError(
                    path,
                    f"the last changes are in {path.name}-wal, which can only be read where "
                    "files can be written; open the index once there",
                ) from None
        return _opened_as(index, files, attaches=attaches, is_immutable=True)


def _opened_as(
    index: Path, files: tuple[DatabaseFile, ...], *, attaches: bool, is_immutable: bool
) -> Opened:
    first, mode = files[0], "immutable=1" if is_immutable else "mode=ro"
    refuse_other_formats(index, first)
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(_uri(first.path(index), mode), flags=flags)
    try:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, _has_log(index))
        extension_problem = load_sqlite_vec(connection) if first is INDEX else ""
        _recognise(connection, index, first)
        if attaches:
            migrate(connection, index, read_only=True)
            # There may be no durable file yet, and none can be created here.
            if DURABLE in files and DURABLE.path(index).exists():
                _attach_for_reading(connection, index, mode)
            else:
                _attach_nothing(connection)
    except BaseException:
        connection.close()
        raise
    return Opened(connection, is_immutable, extension_problem)


def _attach_for_reading(connection: apsw.Connection, index: Path, mode: str) -> None:
    path = DURABLE.path(index)
    with _explained(index, DURABLE):
        refuse_other_formats(index, DURABLE)
    try:
        connection.execute("ATTACH ? AS durable", (_uri(path, mode),))
        recognise(connection, index, DURABLE)
        if connection.pragma("user_version", schema=DURABLE.schema) != DURABLE.version:
            raise DatabaseError(
                path, "the file is from an older version; open it once where it can be written"
            )
        _check_tables(connection, path, DURABLE, DURABLE.schema)
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise DamagedDatabaseError(path) from error


def _attach_nothing(connection: apsw.Connection) -> None:
    with closing(apsw.Connection(":memory:")) as empty:
        empty.execute(_sql_of(DURABLE.sql))
        content = empty.serialize("main")
    connection.execute("ATTACH ':memory:' AS durable")
    connection.deserialize(DURABLE.schema, content)


def _uri(file: Path, mode: str) -> str:
    return f"{file.absolute().as_uri()}?{mode}"


def _tune(connection: apsw.Connection, *schemas: str) -> None:
    for schema in schemas:
        connection.execute(f"PRAGMA {schema}.page_size = {_PAGE_BYTES}")
        # If two processes create a database at once, SQLite refuses one here without waiting.
        deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
        while True:
            try:
                connection.execute(f"PRAGMA {schema}.journal_mode = WAL")
                break
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_SECONDS)
        connection.execute(f"PRAGMA {schema}.synchronous = NORMAL")
        connection.execute(f"PRAGMA {schema}.journal_size_limit = {LOG_BYTES}")


def _has_log(path: Path) -> bool:
    log, _ = logs_of(path)
    with suppress(OSError):  # The log comes and goes as other processes open and close it.
        return log.stat().st_size > 0
    return False


def migrate(
    connection: apsw.Connection, path: Path, file: DatabaseFile = INDEX, *, read_only: bool
) -> None:
    """Create the tables in an empty database, or apply later migrations.

    Each step is one transaction: a kill leaves a complete older version, which is migrated when
    next opened.

    Raises:
        DatabaseError: The database is empty or of an older version, and cannot be written.
        DamagedDatabaseError: Tables are missing.
        NewerSchemaError: A later version wrote it.
    """
    is_ours = connection.pragma("application_id") == file.application_id
    while (version := _version(connection)) < file.version:
        if version < 0 or (version == 0 and is_ours):
            raise DamagedDatabaseError(path)
        if read_only:
            raise DatabaseError(
                path,
                "this file does not contain an index yet"
                if version == 0
                else "the index is from an older version; open it once where it can be written",
            )
        try:
            _step(connection, file, version)
        except (apsw.SQLError, ValueError, TypeError, AttributeError) as error:
            # sqlite-vec only says that it failed.
            if are_exhausted(error):
                raise TooManyFilesError(path) from error
            # Our own statements are correct, so the database is not as it was created.
            raise DamagedDatabaseError(path) from error
    if version > file.version:
        raise NewerSchemaError(path, found=version, supported=file.version)
    _check_tables(connection, path, file, "main")


def refuse_newer(connection: apsw.Connection, index: Path) -> None:
    """Raise `NewerSchemaError` if a later version has migrated one of the open files meanwhile."""
    for file in FILES:
        found = connection.pragma("user_version", schema=file.schema)
        if found > file.version:
            raise NewerSchemaError(file.path(index), found=found, supported=file.version)


def expected_columns(file: DatabaseFile) -> dict[str, tuple[str, ...]]:
    """Return the columns that each table of a file has in this version's schema, by table."""
    with closing(apsw.Connection(":memory:")) as connection:
        for _ in connection.execute(_sql_of(file.sql)):
            pass
        columns = "SELECT name FROM pragma_table_info(?)"
        return {
            table: tuple(name for (name,) in connection.execute(columns, (table,)))
            for table in sorted(file.tables)
        }


@contextmanager
def transaction(connection: apsw.Connection, *, patience_ms: int | None = None) -> Generator[None]:
    """Run a block in a write transaction, which is rolled back if the block raises.

    `patience_ms` is how long to wait for another writer to end, None for the usual time.
    """
    connection.set_busy_timeout(BUSY_TIMEOUT_MS if patience_ms is None else patience_ms)
    try:
        connection.execute("BEGIN IMMEDIATE")
    finally:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk or a corrupt page may already have ended it.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _sql_of(name: str) -> str:
    from importlib import resources

    return resources.files("toolindex").joinpath(name).read_text("utf-8")


def _check_tables(connection: apsw.Connection, path: Path, file: DatabaseFile, schema: str) -> None:
    tables = connection.execute(f"SELECT name FROM {schema}.sqlite_schema WHERE type = 'table'")  # noqa: S608
    if not file.tables.issubset(name for (name,) in tables):
        raise DamagedDatabaseError(path)


def _version(connection: apsw.Connection) -> int:
    return int(connection.pragma("user_version"))


def _step(connection: apsw.Connection, file: DatabaseFile, version: int) -> None:
    with transaction(connection):
        # Another process may have taken the step before this one got the lock.
        if _version(connection) != version:
            return
        if version == 0:
            connection.execute(_sql_of(file.sql))
            connection.execute(f"PRAGMA application_id = {file.application_id}")
            reached = file.version
        else:
            reached = version + 1
            connection.execute(_sql_of(f"{file.steps}/{reached:04}.sql"))
            if (file, reached) == (INDEX, 2):
                number_rows(connection)
        connection.execute(f"PRAGMA user_version = {reached}")
