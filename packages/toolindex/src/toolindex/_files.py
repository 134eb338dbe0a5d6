"""The two files of an index: their names and marks, whose they are, and where none can be.

What can be rebuilt from the tools is in the index itself, such as `search.db`; what cannot is in
the durable file beside it, `search.db-kept`.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import closing, suppress
from typing import TYPE_CHECKING, NamedTuple

import apsw

from toolindex._errors import (
    DamagedDatabaseError,
    DatabaseError,
    ForeignDatabaseError,
    NewerSchemaError,
)

if TYPE_CHECKING:
    from pathlib import Path

_MAGIC = b"SQLite format 3\0"
_MARK = slice(68, 72)
_HEADER_BYTES = 100
# With the flags of a connection, so that SQLite reuses the descriptor for the next one.
_VFS_FLAGS = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0]
# No later version will ever reach this: a greater number means damage.
_LATER_VERSIONS = 100
_KINDS = {
    stat.S_IFDIR: "a folder; give the path of a file in it",
    stat.S_IFIFO: "a named pipe; give the path of a file",
    stat.S_IFSOCK: "a socket; give the path of a file",
    stat.S_IFCHR: "a device; give the path of a file",
    stat.S_IFBLK: "a device; give the path of a file",
}
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
"""The system's errors if it cannot lock files."""
# A connection has two databases, each with a log and the log's index. One of them is opened alone
# before it is attached, and there is a temporary file.
_DESCRIPTORS_NEEDED = 8
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


class DatabaseFile(NamedTuple):
    """One of the files of an index.

    Attributes:
        schema: Its name in a connection to both.
        suffix: The suffix of its name, after that of the index.
        application_id: SQLite's mark in the file header that says whose database this is.
        version: The newest schema this version reads; a file's own is its `user_version`.
        sql: The SQL file that creates it.
        steps: The folder of SQL files that migrate older versions.
        tables: The tables it must have.
    """

    schema: str
    suffix: str
    application_id: int
    version: int
    sql: str
    steps: str
    tables: frozenset[str]

    def path(self, index: Path) -> Path:
        return index.with_name(index.name + self.suffix)


INDEX = DatabaseFile(
    schema="main",
    suffix="",
    application_id=0x70797469,  # pyti
    version=2,
    sql="schema.sql",
    steps="migrations",
    tables=frozenset({"meta", "entries", "entries_fts", "models", "vector_rows"}),
)
DURABLE = DatabaseFile(
    schema="durable",
    suffix="-kept",
    application_id=0x7079746B,  # pytk
    version=1,
    sql="durable.sql",
    steps="migrations_durable",
    tables=frozenset(
        {"embeddings", "refusals", "query_embeddings", "searches", "outcomes", "counters"}
    ),
)
FILES = INDEX, DURABLE
BACKUP = DURABLE._replace(suffix="-kept.backup")
"""The copy of the durable file; see `ToolStore.back_up`."""


class IndexFiles(NamedTuple):
    """The paths of the files of an index, which only this package may open.

    Attributes:
        main: What can be rebuilt from the tools.
        durable: What cannot.
        backup: The copy of the durable file.
    """

    main: Path
    durable: Path
    backup: Path


def files_of(index: Path) -> IndexFiles:
    return IndexFiles(index, DURABLE.path(index), BACKUP.path(index))


def logs_of(file: Path) -> tuple[Path, Path]:
    return file.with_name(f"{file.name}-wal"), file.with_name(f"{file.name}-shm")


class _VFSFile(apsw.VFSFile):
    def close(self) -> None:
        self.xClose()


def application_id(path: Path) -> int | None:
    """Return the `application_id` of a SQLite database file, or None if it is not one.

    Use this instead of opening the file. A file's locks belong to the process, and closing any
    descriptor of the file drops them all, including those of SQLite's connections: the next program
    to end would then delete the log that they are using. Here SQLite itself opens the file, and
    keeps the descriptor as long as a connection of this process has locks
    (sqlite.org/howtocorrupt.html, 2.2). Logs and journals are not read.

    Args:
        path: The file. Opening something else, such as a pipe, may block.

    Raises:
        OSError: There is no such file.
        apsw.Error: It cannot be opened or read.
        ValueError: SQLite cannot open such a path.
    """
    name = os.path.realpath(path)
    # SQLite treats a file of one byte as empty, and fills short reads with zeros.
    if os.stat(name).st_size < _HEADER_BYTES:  # noqa: PTH116
        return None
    with closing(_VFSFile("", name, _VFS_FLAGS)) as file:
        start = file.xRead(_HEADER_BYTES, 0)
    # If the file was truncated in the meantime, trailing zeros are dropped.
    if not start.startswith(_MAGIC):
        return None
    return int.from_bytes(start[_MARK].ljust(4, b"\0"), "big")


def has_mark(path: Path, file: DatabaseFile) -> bool:
    with suppress(OSError, apsw.Error):
        return application_id(path) == file.application_id
    return False


def is_index(path: Path) -> bool:
    """Return whether a file is empty, or its header says that it is an index."""
    with suppress(OSError, ValueError):
        return path.is_file() and (not path.stat().st_size or has_mark(path, INDEX))
    return False


def refuse_other_formats(index: Path, file: DatabaseFile) -> None:
    """Raise if there is something else than an SQLite database in the place of a file."""
    path = file.path(index)
    with suppress(OSError, ValueError):
        mode = os.stat(path).st_mode  # noqa: PTH116 - pathlib raises for some paths
        if not stat.S_ISREG(mode):
            other = "something other than a regular file; give the path of a file"
            raise DatabaseError(path, f"this is {_KINDS.get(stat.S_IFMT(mode), other)}")
    # SQLite treats some files of a few bytes as empty databases, and would overwrite them; and it
    # would read the content of a foreign file from a log beside it.
    with suppress(FileNotFoundError):
        if path.stat().st_size and application_id(path) is None:
            raise unreadable(index, file)


def unreadable(index: Path, file: DatabaseFile) -> DatabaseError:
    """Return the error for a file that SQLite cannot read: damage if it was ours.

    The file itself may no longer show it. But no other program uses the name of our second file, so
    if that exists, there was an index of ours at this path.
    """
    path = file.path(index)
    if has_mark(path, file) or DURABLE.path(index).exists():
        return DamagedDatabaseError(path)
    return ForeignDatabaseError(path)


def recognise(
    connection: apsw.Connection, index: Path, file: DatabaseFile, *, schema: str | None = None
) -> None:
    """Check that an open file is ours, and of a known version.

    This precedes any write: even a change of the journal mode would modify another program's file.
    `schema` is its name in this connection, if that is not its usual one.

    Raises:
        ForeignDatabaseError: It is another program's.
        DamagedDatabaseError: It is ours, and its header is damaged.
        NewerSchemaError: A later version wrote it.
    """
    path, schema = file.path(index), schema or file.schema
    rows = connection.execute(f"SELECT name FROM {schema}.sqlite_schema WHERE type = 'table'")  # noqa: S608
    tables = {name for (name,) in rows}
    if not tables:
        return
    mark = connection.pragma("application_id", schema=schema)
    if mark != file.application_id:
        # No other program uses the names of our other files, nor their marks.
        is_ours = file.suffix or file.tables <= tables or mark == DURABLE.application_id
        raise DamagedDatabaseError(path) if is_ours else ForeignDatabaseError(path)
    version = connection.pragma("user_version", schema=schema)
    if version > file.version + _LATER_VERSIONS:
        raise DamagedDatabaseError(path)
    if version > file.version:
        raise NewerSchemaError(path, found=version, supported=file.version)


def explained(path: Path, error: OSError) -> DatabaseError:
    """Return the error to raise if the system refuses a file, or its folder, at a path."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    folder = path.parent
    folder = next((it for it in (folder, *folder.parents) if os.path.lexists(it)), folder)
    match error.errno:
        case errno.EACCES | errno.EPERM:
            message = (
                f"you have no permission to create files in {folder}; make that folder "
                "writable for you, or choose another path"
            )
        case errno.EROFS:
            message = f"{folder} cannot be written (read-only); choose another path"
        case errno.ENOTDIR | errno.EEXIST:
            message = f"{folder} is a file, not a folder; choose another path"
        case errno.ENAMETOOLONG:
            message = "the name is too long for this system; choose a shorter one"
        case errno.ELOOP:
            message = "its symbolic links form a loop; choose another path"
        case errno.ENOSPC | errno.EDQUOT:
            message = "the disk is full; free some space and run it again"
        case number if number in NO_LOCKS:
            return without_locks(path, reason)
        case _:
            message = f"no file can be created in {folder} ({reason}); choose another path"
    return DatabaseError(path, message)


def without_locks(path: Path, reason: str) -> DatabaseError:
    """Return the error to raise if files cannot be locked, which every index needs."""
    return DatabaseError(
        path,
        f"files cannot be locked there, as on some network drives ({reason}); choose a path on a "
        "local disk",
    )


def refuse_without_locks(path: Path) -> None:
    """Raise if the system cannot lock files, which SQLite reports as if the lock were held.

    This uses another file beside the database, because closing the database itself would release
    this process's locks on it.
    """
    try:
        import fcntl
    except ImportError:  # Windows always locks.
        return
    import tempfile  # Rarely needed.

    try:
        with tempfile.TemporaryFile(dir=path.parent) as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in NO_LOCKS:
            raise without_locks(path, os.strerror(error.errno)) from error


def are_exhausted(error: Exception) -> bool:
    """Return whether a failure comes from a lack of file descriptors, which SQLite does not say.

    If the error says so itself, that counts, even if files were closed since.
    """
    if isinstance(error, OSError):
        return error.errno in _NO_DESCRIPTORS
    if any(os.strerror(number) in str(error) for number in _NO_DESCRIPTORS):
        return True
    opened: list[int] = []
    try:
        for _ in range(_DESCRIPTORS_NEEDED):
            opened.append(os.open(os.devnull, os.O_RDONLY))  # noqa: PERF401 - closed below
    except OSError as lack:
        return lack.errno in _NO_DESCRIPTORS
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return False
