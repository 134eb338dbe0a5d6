"""Recognising and replacing damaged files, copying and restoring the durable one, removing all."""

from __future__ import annotations

import os
import re
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from toolindex._errors import (
    DamagedDatabaseError,
    DatabaseBusyError,
    DatabaseError,
    ForeignDatabaseError,
    TooManyFilesError,
)
from toolindex._files import (
    BACKUP,
    DURABLE,
    FILES,
    INDEX,
    application_id,
    explained,
    logs_of,
)
from toolindex._lease import RECOVERY_LEASE, Lease
from toolindex._meta import counter, set_counter
from toolindex._opening import (
    expected_columns,
    open_alone,
    open_connection,
    open_durable,
    translated,
)
from toolindex._vectors import vector_tables

if TYPE_CHECKING:
    from collections.abc import Generator

    from toolindex._files import DatabaseFile

# Less than a day, so that a daily call never finds the last copy just too recent.
_BACKUP_SECONDS = 20 * 3600.0
_LEASE = "backup"
_LEASE_SECONDS = 60.0
# The counters that say when the durable file was restored, and when its copy had been made.
_RESTORED, _COPIED = "restored_at", "restored_from"
# Messages of SQLite and sqlite-vec if our tables are not as they were created. They are the same if
# a file cannot be opened or memory is short: sqlite-vec does not report causes.
_TABLES = "|".join(table for file in FILES for table in sorted(file.tables))
_SUSPICION = re.compile(
    rf"no such table: ((main|durable)\.)?({_TABLES})|no such column|has no column|no such module|"
    r"vectors blob|vector data|chunk|validity|sqlite-vec|vtable constructor|fts5: ",
    re.IGNORECASE,
)
# Rows that no version wrote: a check of the pages does not find them, and reading them would be
# taken for damage again. Without its counter, the index's vectors replace older ones.
_NO_VECTOR = "typeof(vector) != 'blob' OR length(vector) % 4 OR length(vector) = 0"
_NO_NUMBER = "typeof({0}) NOT IN ('real', 'integer')"
_CLEANING = f"""
DELETE FROM counters WHERE name = 'vectors' OR typeof(value) != 'integer';
DELETE FROM embeddings WHERE {_NO_VECTOR};
DELETE FROM query_embeddings WHERE {_NO_VECTOR};
DELETE FROM outcomes WHERE {_NO_NUMBER.format("at")} OR at < 0 OR typeof(tool_id) != 'text'
    OR {_NO_NUMBER.format("ifnull(latency_ms, 0)")};
DELETE FROM searches WHERE {_NO_NUMBER.format("at")} OR at < 0
    OR {_NO_NUMBER.format("latency_ms")} OR latency_ms < 0 OR NOT json_valid(parameters)
    OR NOT json_valid(results) OR NOT json_valid(degraded);
"""  # noqa: S608 - constants
# If any of these has a row, removing an index would lose something.
_CONTENT = ("entries", "embeddings", "searches", "outcomes")
_MARKS = frozenset(file.application_id for file in FILES)


def diagnosed(index: Path, error: apsw.Error) -> DatabaseError:
    """Translate the driver's error on an open index to one of this package.

    A failed statement is no proof of damage: if the error could mean it, both files are checked.
    """
    meaning = translated(index, error, is_open=True)
    is_suspicious = isinstance(error, apsw.SQLError) and _SUSPICION.search(str(error))
    # The driver does not say which file is damaged.
    if not isinstance(meaning, DamagedDatabaseError) and not (
        type(meaning) is DatabaseError and is_suspicious
    ):
        return meaning
    try:
        for file in FILES:
            if is_damaged(index, file):
                return DamagedDatabaseError(file.path(index))
    except DatabaseError as cannot_tell:
        return meaning if isinstance(meaning, DamagedDatabaseError) else cannot_tell
    except OSError:  # The expected schema could not be read.
        return meaning
    return meaning


def is_damaged(index: Path, file: DatabaseFile) -> bool:
    """Check one of the files of an index; return whether it is damaged.

    Raises:
        DatabaseError: It cannot be determined whether the file is damaged.
    """
    if not file.path(index).exists():
        return False
    expected = expected_columns(file)
    try:
        connection = open_alone(index, file)
    except DamagedDatabaseError:
        return True
    with closing(connection):
        try:
            # After the first read all files are open, so that no file descriptor can be lacking.
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute("BEGIN")
            if connection.execute("PRAGMA integrity_check(1)").get != "ok":
                return True
            if connection.pragma("user_version") != file.version:
                return False
            for table, columns in expected.items():
                connection.execute(f"SELECT {', '.join(columns)} FROM {table} LIMIT 0")  # noqa: S608
            for vectors in vector_tables(connection) if file is INDEX else ():
                _read_through(connection, vectors.name)
        except (apsw.SQLError, apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError):
            # Our own statements are correct, and no file descriptor was lacking.
            return True
        except apsw.Error as error:
            raise translated(index, error, file, is_open=True) from error
    return False


def _read_through(connection: apsw.Connection, table: str) -> None:
    vector = None
    for _, vector in connection.execute(f"SELECT rowid, embedding FROM {table}"):  # noqa: B007, S608
        pass
    # A search also reads which rows of each chunk are in use.
    nearest = f"SELECT rowid FROM {table} WHERE embedding MATCH ? AND k = 1"  # noqa: S608
    if vector is not None:
        connection.execute(nearest, (vector,)).fetchall()


def recover(index: Path, *, suspect: Path) -> Path:
    """Rename the damaged one of the two files, and create or restore it.

    If neither is found to be damaged, it is `suspect`. A kill at any moment leaves the work to
    whoever opens the index next. The caller holds the lease for creating files. Returns the damaged
    file's new name, such as `search.db.corrupt-20261122T101500`.

    Raises:
        DatabaseError: It cannot be renamed, or a new one cannot be created.
    """
    aside, damaged = index, [file.path(index) for file in FILES if is_damaged(index, file)]
    # The durable file is first: the index shows that it is not a new one.
    for path in reversed(damaged or [suspect]):
        try:
            aside = _quarantine(path)
        except OSError as error:
            raise DatabaseError(path, f"is damaged, and cannot be renamed ({error})") from error
        restore(index)
    open_connection(index, read_only=False, creates=True).connection.close()
    return aside


def _quarantine(path: Path) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    aside, number = path.with_name(f"{path.name}.corrupt-{stamp}"), 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.corrupt-{stamp}-{number}")
    path.rename(aside)
    for old, new in zip(logs_of(path), logs_of(aside), strict=True):
        with suppress(FileNotFoundError):
            old.rename(new)
    return aside


def back_up(index: Path, connection: apsw.Connection) -> bool:
    """Copy the durable file, as a connection reads it; return whether a copy was made.

    An existing copy is replaced only if it is old, and only by one that was checked, so a kill at
    any moment leaves one of them. If another process is copying, nothing is done.

    Raises:
        DamagedDatabaseError: The durable file is damaged.
        DatabaseError: The copy cannot be written.
    """
    copy = BACKUP._replace(suffix=f"{BACKUP.suffix}.new")
    backup, new = BACKUP.path(index), copy.path(index)
    lease = Lease(index, _LEASE)
    if has_recent_backup(index) or not lease.acquire(timeout=0):
        return False
    try:
        _copy(connection, DURABLE.schema, new)
        if is_damaged(index, copy):
            raise DatabaseError(backup, "the copy cannot be read again; is the disk failing?")
        _put(new, backup, mode=DURABLE.path(index).stat().st_mode)
    except (apsw.Error, OSError, DatabaseError) as error:
        # It may come from either of the two files.
        if is_damaged(index, DURABLE):
            raise DamagedDatabaseError(DURABLE.path(index)) from error
        if isinstance(error, DatabaseError):
            raise
        reason = f"no copy of {DURABLE.path(index).name} can be made ({error})"
        raise DatabaseError(backup, reason) from error
    finally:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        lease.release()
    return True


def has_recent_backup(index: Path) -> bool:
    """Return whether the durable file was copied in the last day."""
    try:
        return abs(time.time() - BACKUP.path(index).stat().st_mtime) < _BACKUP_SECONDS
    except OSError:
        return False


@contextmanager
def without_backup(index: Path) -> Generator[None]:
    """Delete the copy of the durable file, and let none be made during the block.

    Raises:
        DatabaseError: It cannot be deleted, or another process is copying for a minute.
    """
    with Lease(index, _LEASE).held(timeout=_LEASE_SECONDS):
        try:
            BACKUP.path(index).unlink(missing_ok=True)
        except OSError as error:
            raise explained(BACKUP.path(index), error) from error
        yield


def restore(index: Path) -> None:
    """Create the durable file from its copy, if it is missing or empty; rename a damaged copy.

    The caller holds the lease for creating files.

    Raises:
        DatabaseError: The file cannot be written, or it cannot be determined if the copy is sound.
    """
    durable, backup = DURABLE.path(index), BACKUP.path(index)
    new = durable.with_name(f"{durable.name}.new")
    try:
        if not backup.exists() or (durable.exists() and durable.stat().st_size):
            return
        status = backup.stat()
        if _is_sound_backup(index):
            with closing(open_alone(index, BACKUP)) as source:
                _copy(source, "main", new)
            with closing(open_durable(new)) as connection, connection:
                connection.execute(_CLEANING)
                set_counter(connection, _RESTORED, int(time.time()))
                set_counter(connection, _COPIED, int(status.st_mtime))
            # A killed process may have left a log, which SQLite would apply to the older file.
            for each in logs_of(durable):
                each.unlink(missing_ok=True)
            _put(new, durable, mode=status.st_mode)
            message = "was restored from its copy of %s; later usage records are lost"
        else:
            _quarantine(backup)
            message = "cannot be restored: its copy of %s is damaged, too"
    except apsw.Error as error:
        raise translated(index, error, DURABLE, is_open=True) from error
    except OSError as error:
        raise explained(durable, error) from error
    import logging  # Rarely needed.

    made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(status.st_mtime))
    logging.getLogger("toolindex").warning(f"%s {message}", durable, made)


def restored(connection: apsw.Connection) -> tuple[float, float] | None:
    """Return when the durable file was last restored and when its copy had been made, or None."""
    at = counter(connection, _RESTORED)
    return (float(at), float(counter(connection, _COPIED))) if at else None


def _is_sound_backup(index: Path) -> bool:
    try:
        path = BACKUP.path(index)
        has_mark = path.is_file() and application_id(path) == DURABLE.application_id
        return has_mark and not is_damaged(index, BACKUP)
    except (OSError, ForeignDatabaseError):
        return False


def _copy(source: apsw.Connection, schema: str, target: Path) -> None:
    for old in (target, *logs_of(target)):
        old.unlink(missing_ok=True)
    with closing(apsw.Connection(str(target))) as connection:
        # It is synced as a whole, and not used if this process is killed before that.
        connection.pragma("synchronous", "off")
        with connection.backup("main", source, schema) as backup:
            backup.step()
        # In this mode, no other file is needed to read it.
        connection.pragma("journal_mode", "delete")


def _put(new: Path, place: Path, *, mode: int) -> None:
    """Put a complete file in its place, so that a power failure leaves it or the former one."""
    new.chmod(mode & 0o777)  # The usage record is nobody else's business.
    with new.open("r+b") as file:
        os.fsync(file.fileno())
    new.replace(place)
    # Some systems cannot open or sync folders.
    with suppress(OSError):
        folder = os.open(place.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def remove(path: Path, *, only_empty: bool = False) -> bool:
    """Remove an index: its two files, the copy, their logs, its lock files, and damaged files.

    Nobody can open it in the meantime, and later processes create a new one. If this is killed, the
    usage record is left.

    Args:
        path: The index. Any other file is left alone.
        only_empty: Keep an index with tools, vectors or a usage record, and damaged files.

    Returns:
        Whether it was removed: not if it is open elsewhere, or not empty.

    Raises:
        DatabaseError: It cannot be opened or removed.
    """
    # As in `ToolIndex`, links are resolved: the other files are beside the target.
    path = Path(os.path.realpath(path))
    files = [file for file in (path, DURABLE.path(path)) if file.is_file()]
    aside = [BACKUP.path(path)] if BACKUP.path(path).is_file() else []
    if only_empty and any(map(_seems_full, [*files, *aside])):
        return False
    try:
        with Lease(path, RECOVERY_LEASE).held(timeout=0), ExitStack() as stack:
            for file in files:
                if (mark := application_id(file)) not in _MARKS and mark != 0:
                    return False
                connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READWRITE)
                stack.callback(connection.close)
                # If a process was killed, the mark may still be in the log.
                if connection.pragma("application_id") not in _MARKS:
                    return False
                connection.pragma("locking_mode", "exclusive")
                # This only works for the sole user, and moves the log into the file.
                if connection.pragma("journal_mode", "delete") != "delete":
                    return False
                connection.execute("BEGIN EXCLUSIVE")
                if only_empty and _has_content(connection):
                    return False
            # The copy goes before its original: if this is killed, nothing comes back. Damaged
            # files may have data that an index that stays has lost.
            patterns = [f"{_escaped(DURABLE.path(path).name)}*.new"]
            if not only_empty:
                names = [each.path(path).name for each in (*FILES, BACKUP)]
                # Early versions also renamed files of earlier ones.
                patterns += [
                    f"{_escaped(it)}.{why}-*" for it in names for why in ("corrupt", "old")
                ]
            aside += [it for pattern in patterns for it in path.parent.glob(pattern)]
            for each in (*aside, *(each for file in files for each in (*logs_of(file), file))):
                if not each.is_dir():
                    each.unlink(missing_ok=True)
    except TooManyFilesError:
        raise
    except (DatabaseBusyError, apsw.BusyError, apsw.LockedError):
        return False
    except apsw.Error as error:
        raise translated(path, error) from error
    for lock in path.parent.glob(f"{_escaped(path.name)}-*.lock"):
        lease = Lease(path, lock.name.removeprefix(f"{path.name}-").removesuffix(".lock"))
        with suppress(DatabaseBusyError), lease.held(timeout=0):
            pass
    return bool(files or aside)


def _seems_full(file: Path) -> bool:
    """Look without a lock, so that an index in use is not disturbed."""
    with (
        suppress(apsw.Error),
        closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)) as connection,
    ):
        return _has_content(connection)
    return False


def _has_content(connection: apsw.Connection) -> bool:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    return any(
        connection.execute(f"SELECT EXISTS (SELECT 1 FROM {table})").get  # noqa: S608 - constants
        for table in _CONTENT
        if table in tables
    )


def _escaped(name: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)
