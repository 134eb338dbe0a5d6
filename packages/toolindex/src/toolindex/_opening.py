"""Opening a connection: apsw's own SQLite, tuned, with sqlite-vec if it can be loaded."""

from __future__ import annotations

import re
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

import apsw

from toolindex._extension import load_sqlite_vec
from toolindex._migrations import check_tables, migrate, sql_of, transaction
from toolindex._pairing import are_paired, pair
from toolindex._parts import INDEX, KEPT, PARTS, beside
from toolindex._places import are_exhausted, explained, refuse_without_locks, without_locks
from toolindex._recognition import broken, recognise, refuse_other_formats
from toolindex.errors import (
    DamagedDatabaseError,
    DatabaseBusyError,
    DatabaseError,
    TooManyFilesError,
)

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from toolindex._parts import Part

BUSY_TIMEOUT_MS = 5_000
"""How long a statement waits for a lock that another process holds."""

_RETRY_SECONDS = 0.005
LOG_BYTES = 4 << 20
"""Longer logs are moved into their files; SQLite itself waits for a thousand pages (16 MB)."""
# Large pages make vectors faster; the size is fixed by the first write.
PAGE_BYTES = 16384
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
    index: Path, *, read_only: bool, creates: bool = False, without_kept: bool = False
) -> Opened:
    """Open a connection to an index, which is migrated if necessary.

    The file of irreplaceable data is attached as `kept`. A table name without a schema refers to
    the only table of that name, in either file.

    Args:
        index: The index.
        read_only: Never write, and work on a medium that cannot be written.
        creates: Create missing files. The caller must hold the lease for creating files:
            otherwise, another process that is renaming a damaged file could rename the log of the
            new one, too.
        without_kept: When reading only, attach an empty database instead of that file.

    Raises:
        DatabaseError: A file cannot be opened; its subclasses say why.
    """
    with _explained(index):
        if read_only:
            return _open_read_only(index, (INDEX,) if without_kept else PARTS)
        return _open_writable(index, creates=creates)


def open_part(index: Path, part: Part) -> apsw.Connection:
    """Open a single file of an index read-only, whatever its version."""
    with _explained(index, part):
        return _open_read_only(index, (part,), attaches=False).connection


def make_kept(file: Path, *, creates: bool = True) -> apsw.Connection:
    """Open only the file of irreplaceable data, which is migrated if necessary.

    Args:
        file: The file.
        creates: Create it if it is missing, as for `open_connection`.

    Raises:
        apsw.Error: It cannot be written.
        DatabaseError: It is damaged, another program's, or of a later version.
    """
    connection = apsw.Connection(str(file), flags=_writable(creates=creates))
    try:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        _tune(connection, "main")
        migrate(connection, file, KEPT, read_only=False)
    except BaseException:
        connection.close()
        raise
    return connection


def translated(
    index: Path, error: apsw.Error, part: Part = INDEX, *, is_open: bool = False
) -> DatabaseError:
    """Translate the driver's error to one of this package.

    Only explicit errors count as damage here; see `diagnosed` for ambiguous ones.

    Args:
        index: The index.
        error: What the driver raised.
        part: The file concerned.
        is_open: Whether the file was already recognised as ours.
    """
    path = part.path(index)
    match error:
        case apsw.NotADBError() | apsw.CorruptError():
            return DamagedDatabaseError(path) if is_open else broken(index, part)
        case apsw.SQLError() if _BROKEN_HEADER.search(str(error)):
            return broken(index, part)
        case apsw.FullError():
            return DatabaseError(path, "the disk is full; free some space and run it again")
        case apsw.BusyError() | apsw.LockedError():
            return DatabaseBusyError(path)
        case _ if are_exhausted(error):
            return TooManyFilesError(path)
        case apsw.NoMemError():
            return DatabaseError(path, "out of memory; close something, and run it again")
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


@contextmanager
def _explained(index: Path, part: Part = INDEX) -> Generator[None]:
    path = part.path(index)
    try:
        yield
    except apsw.Error as error:
        raise translated(index, error, part) from error
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
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, _has_changes_beside_it(index))
        extension_problem = load_sqlite_vec(connection)
        _recognise(connection, index, INDEX)
        _attach(connection, index, creates=creates)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, False)
        if connection.readonly("kept") and not connection.readonly("main"):
            # Otherwise only the first vector would reveal it.
            raise translated(index, apsw.ReadOnlyError(), KEPT)
        _tune(connection, *(part.schema for part in PARTS))
        migrate(connection, index, read_only=False)
        if not extension_problem and not are_paired(connection):
            _pair(connection)
    except BaseException:
        connection.close()
        raise
    return Opened(connection, is_immutable=False, extension_problem=extension_problem)


def _writable(*, creates: bool) -> int:
    return apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if creates else 0)


def _recognise(connection: apsw.Connection, index: Path, part: Part) -> None:
    try:
        recognise(connection, index, part, schema="main")
    except apsw.BusyError:
        # Waiting is pointless if files cannot be locked at all.
        refuse_without_locks(part.path(index))
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        recognise(connection, index, part, schema="main")
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)


def _attach(connection: apsw.Connection, index: Path, *, creates: bool) -> None:
    file = KEPT.path(index)
    with _explained(index, KEPT):
        refuse_other_formats(index, KEPT)
        connection.execute("ATTACH ? AS kept", (str(file),))
        recognise(connection, index, KEPT, schema="kept")
        if connection.pragma("user_version", schema="kept") != KEPT.version:
            # Unqualified names in its statements would refer to the index.
            connection.execute("DETACH kept")
            make_kept(file, creates=creates).close()
            connection.execute("ATTACH ? AS kept", (str(file),))
        check_tables(connection, file, KEPT, schema="kept")


def _pair(connection: apsw.Connection) -> None:
    # The current writer has paired them, or the next process to open them will.
    with suppress(apsw.BusyError), transaction(connection):
        if not are_paired(connection):
            pair(connection)


def _open_read_only(index: Path, parts: tuple[Part, ...], *, attaches: bool = True) -> Opened:
    try:
        return _opened_as(index, parts, attaches=attaches, is_immutable=False)
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.FullError, apsw.IOError) as error:
        if are_exhausted(error):
            raise
        # WAL needs a shared-memory file beside the database. If none can be created, the file is
        # read as it is, unless the log has later changes; the pool has to check that the file has
        # not changed since.
        for file in (part.path(index) for part in parts):
            if _has_changes_beside_it(file):
                raise DatabaseError(
                    file,
                    f"the last changes are in {file.name}-wal, which can only be read where "
                    "files can be written; open the index once there",
                ) from None
        return _opened_as(index, parts, attaches=attaches, is_immutable=True)


def _opened_as(
    index: Path, parts: tuple[Part, ...], *, attaches: bool, is_immutable: bool
) -> Opened:
    first, mode = parts[0], "immutable=1" if is_immutable else "mode=ro"
    refuse_other_formats(index, first)
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(_uri(first.path(index), mode), flags=flags)
    try:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, _has_changes_beside_it(index))
        extension_problem = load_sqlite_vec(connection) if first is INDEX else ""
        _recognise(connection, index, first)
        if attaches:
            migrate(connection, index, read_only=True)
            # There may be no kept data yet, and no file can be created for it here.
            if KEPT in parts and KEPT.path(index).exists():
                _attach_for_reading(connection, index, mode)
            else:
                _attach_nothing(connection)
    except BaseException:
        connection.close()
        raise
    return Opened(connection, is_immutable, extension_problem)


def _attach_for_reading(connection: apsw.Connection, index: Path, mode: str) -> None:
    file = KEPT.path(index)
    with _explained(index, KEPT):
        refuse_other_formats(index, KEPT)
    try:
        connection.execute("ATTACH ? AS kept", (_uri(file, mode),))
        recognise(connection, index, KEPT, schema="kept")
        if connection.pragma("user_version", schema="kept") != KEPT.version:
            raise DatabaseError(
                file, "the file is from an older version; open it once where it can be written"
            )
        check_tables(connection, file, KEPT, schema="kept")
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise DamagedDatabaseError(file) from error


def _attach_nothing(connection: apsw.Connection) -> None:
    with closing(apsw.Connection(":memory:")) as empty:
        empty.execute(sql_of(KEPT.sql))
        content = empty.serialize("main")
    connection.execute("ATTACH ':memory:' AS kept")
    connection.deserialize("kept", content)


def _uri(file: Path, mode: str) -> str:
    return f"{file.absolute().as_uri()}?{mode}"


def _tune(connection: apsw.Connection, *schemas: str) -> None:
    for schema in schemas:
        connection.execute(f"PRAGMA {schema}.page_size = {PAGE_BYTES}")
        _switch_to_wal(connection, schema)
        connection.execute(f"PRAGMA {schema}.synchronous = NORMAL")
        connection.execute(f"PRAGMA {schema}.journal_size_limit = {LOG_BYTES}")


def _switch_to_wal(connection: apsw.Connection, schema: str) -> None:
    # If two processes create a database at once, SQLite refuses one here without waiting.
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute(f"PRAGMA {schema}.journal_mode = WAL")
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


def _has_changes_beside_it(file: Path) -> bool:
    log, _ = beside(file)
    with suppress(OSError):  # The log comes and goes as other processes open and close it.
        return log.stat().st_size > 0
    return False
