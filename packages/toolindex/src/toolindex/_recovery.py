"""Recognising damaged files, replacing them, and copying and restoring the durable one."""

from __future__ import annotations

import os
import re
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

import apsw

from toolindex._header import application_id
from toolindex._lease import Lease
from toolindex._migrations import expected_columns
from toolindex._opening import make_kept, open_connection, open_part, translated
from toolindex._parts import BACKUP, FORMER_ID, INDEX, KEPT, PARTS, backup_path, beside, kept_path
from toolindex._places import explained
from toolindex._vectors import vector_tables
from toolindex.errors import DamagedDatabaseError, DatabaseError, ForeignDatabaseError

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from toolindex._parts import Part

# Less than a day, so that a daily call never finds the last copy just too recent.
_BACKUP_SECONDS = 20 * 3600.0
_LEASE = "backup"
_LEASE_SECONDS = 60.0
# Messages of SQLite and sqlite-vec if our tables are not as they were created. They are the same if
# a file cannot be opened or memory is short: sqlite-vec does not report causes.
_TABLES = "|".join(table for part in PARTS for table in sorted(part.tables))
_SUSPICION = re.compile(
    rf"no such table: ((main|kept)\.)?({_TABLES})|no such column|has no column|no such module|"
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
        for part in PARTS:
            if is_damaged(index, part):
                return DamagedDatabaseError(part.path(index))
    except DatabaseError as cannot_tell:
        return meaning if isinstance(meaning, DamagedDatabaseError) else cannot_tell
    except OSError:  # The expected schema could not be read.
        return meaning
    return meaning


def is_damaged(index: Path, part: Part) -> bool:
    """Check one of the files of an index; return whether it is damaged.

    Raises:
        DatabaseError: It cannot be determined whether the file is damaged.
    """
    if not part.path(index).exists():
        return False
    expected = expected_columns(part)
    try:
        connection = open_part(index, part)
    except DamagedDatabaseError:
        return True
    with closing(connection):
        try:
            # After the first read all files are open, so that no file descriptor can be lacking.
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute("BEGIN")
            if connection.execute("PRAGMA integrity_check(1)").get != "ok":
                return True
            if connection.pragma("user_version") != part.version:
                return False
            for table, columns in expected.items():
                connection.execute(f"SELECT {', '.join(columns)} FROM {table} LIMIT 0")  # noqa: S608
            if part is INDEX:
                for vectors in vector_tables(connection):
                    _read_through(connection, vectors.name)
        except (apsw.SQLError, apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError):
            # Our own statements are correct, and no file descriptor was lacking.
            return True
        except apsw.Error as error:
            raise translated(index, error, part, is_open=True) from error
    return False


def renew(index: Path, *, suspect: Path) -> Path:
    """Rename the damaged one of the two files, and create or restore it.

    A kill at any moment leaves the work to whoever opens the index next. The caller holds the lease
    for creating files.

    Args:
        index: The index.
        suspect: The file to rename if neither is found to be damaged.

    Returns:
        The damaged file's new name, such as `search.db.corrupt-20261122T101500`.

    Raises:
        DatabaseError: It cannot be renamed, or a new one cannot be created.
    """
    aside, damaged = index, [part.path(index) for part in PARTS if is_damaged(index, part)]
    # The durable file is first: the index shows that it is not a new one.
    for file in reversed(damaged or [suspect]):
        try:
            aside = _set_aside(file)
        except OSError as error:
            raise DatabaseError(file, f"is damaged, and cannot be renamed ({error})") from error
        restore(index)
    open_connection(index, read_only=False, creates=True).connection.close()
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
        with _unless_durable_is_damaged(index):
            _copy(connection, KEPT.schema, new)
            if is_damaged(index, copy):
                raise DatabaseError(backup, "the copy cannot be read again; is the disk failing?")
            _put(new, backup, mode=kept_path(index).stat().st_mode)
    finally:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        lease.release()
    return True


def has_recent_backup(index: Path) -> bool:
    """Return whether the durable file was copied in the last day."""
    try:
        return abs(time.time() - backup_path(index).stat().st_mtime) < _BACKUP_SECONDS
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
            backup_path(index).unlink(missing_ok=True)
        except OSError as error:
            raise explained(backup_path(index), error) from error
        yield


def restore(index: Path) -> None:
    """Create the durable file from its copy, if it is missing or empty; rename a damaged copy.

    The caller holds the lease for creating files.

    Raises:
        DatabaseError: The file cannot be written, or it cannot be determined if the copy is sound.
    """
    kept, backup = kept_path(index), backup_path(index)
    new = kept.with_name(f"{kept.name}.new")
    try:
        if not backup.exists() or (kept.exists() and kept.stat().st_size):
            return
        if _is_sound_backup(index):
            with closing(open_part(index, BACKUP)) as source:
                _copy(source, "main", new)
            with closing(make_kept(new)) as connection, connection:
                connection.execute(_CLEANING)
            # A killed process may have left a log, which SQLite would apply to the older file.
            for each in beside(kept):
                each.unlink(missing_ok=True)
            _put(new, kept, mode=backup.stat().st_mode)
            said = "was restored from its copy of %s; later usage records are lost"
        else:
            backup = _set_aside(backup)
            said = "cannot be restored: its copy of %s is damaged, too"
    except apsw.Error as error:
        raise translated(index, error, KEPT, is_open=True) from error
    except OSError as error:
        raise explained(kept, error) from error
    import logging  # Rarely needed.

    made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(backup.stat().st_mtime))
    logging.getLogger("toolindex").warning(f"%s {said}", kept, made)


def _is_sound_backup(index: Path) -> bool:
    try:
        file = backup_path(index)
        has_mark = file.is_file() and application_id(file) == KEPT.application_id
        return has_mark and not is_damaged(index, BACKUP)
    except (OSError, ForeignDatabaseError):
        return False


@contextmanager
def _unless_durable_is_damaged(index: Path) -> Generator[None]:
    """Translate errors of copying, which may come from either of the two files."""
    try:
        yield
    except (apsw.Error, OSError, DatabaseError) as error:
        if is_damaged(index, KEPT):
            raise DamagedDatabaseError(kept_path(index)) from error
        if isinstance(error, DatabaseError):
            raise
        reason = f"no copy of {kept_path(index).name} can be made ({error})"
        raise DatabaseError(backup_path(index), reason) from error


def _copy(source: apsw.Connection, schema: str, target: Path) -> None:
    for old in (target, *beside(target)):
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


def _set_aside(file: Path) -> Path:
    aside = _name_aside(file)
    file.rename(aside)
    for old, new in zip(beside(file), beside(aside), strict=True):
        with suppress(FileNotFoundError):
            old.rename(new)
    return aside


def _name_aside(path: Path) -> Path:
    # Of an early version, it is not damaged.
    why = "corrupt"
    with suppress(OSError, ValueError, apsw.Error):
        why = "old" if application_id(path) == FORMER_ID else why
    aside = path.with_name(f"{path.name}.{why}-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}")
    stamped, number = aside.name, 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{stamped}-{number}")
    return aside


def _read_through(connection: apsw.Connection, table: str) -> None:
    vector = None
    for _, vector in connection.execute(f"SELECT rowid, embedding FROM {table}"):  # noqa: B007, S608
        pass
    # A search also reads which rows of each chunk are in use.
    nearest = f"SELECT rowid FROM {table} WHERE embedding MATCH ? AND k = 1"  # noqa: S608
    if vector is not None:
        connection.execute(nearest, (vector,)).fetchall()
