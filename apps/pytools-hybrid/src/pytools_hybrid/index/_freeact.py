"""Making room where freeact's own search has left its database: it used the path that ours uses."""

from __future__ import annotations

import os
import re
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
from toolindex import DatabaseError, Lease, application_id

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["is_incumbent", "set_aside_incumbent"]

_LEASE_SECONDS = 60.0
_LOCK_MS = 5_000
# SQLite keeps statements without IF NOT EXISTS, and with the author's line breaks.
_STATEMENTS = {
    "entries_vec": re.compile(
        r"CREATE VIRTUAL TABLE entries_vec USING vec0\( ?id TEXT PRIMARY KEY, "
        r"embedding float\[\d+\] ?\)"
    ),
    "entries_fts": re.compile(
        r"CREATE VIRTUAL TABLE entries_fts USING fts5\( ?id, file_hash UNINDEXED, description ?\)"
    ),
}
# The tables in which the two keep their rows.
_OWN = frozenset(
    [f"entries_vec_{part}" for part in ("info", "chunks", "rowids", "vector_chunks00")]
    + [f"entries_fts_{part}" for part in ("data", "idx", "content", "docsize", "config")]
)
_PARTS = frozenset(("table", name) for name in (*_OWN, "sqlite_sequence"))
_READ_WRITE = apsw.SQLITE_OPEN_READWRITE
_AS_IT_LIES = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


def set_aside_incumbent(database: Path) -> Path | None:
    """Rename the database of freeact's own search, so that ours can be made at its path.

    It is kept as `search.db.freeact`, whole: with what was committed to its log only, and with
    what a program that has it open commits from now on. A kill at any moment leaves it at one of
    the two paths, and the next call ends what is left to be done. Anything else at the path is
    left as it is.

    Its vectors are not taken over: freeact embeds the docstring alone, ours are of another text,
    and vectors of different texts cannot be compared. They are computed anew.

    Args:
        database: Where our database will be.

    Returns:
        Its new path, `search.db.freeact-2` where that name is taken, or None if there was none.

    Raises:
        DatabaseError: It is one, and cannot be renamed.
        LeaseHeldError: Another process has been making a database at the path for a minute.
    """
    try:
        database = Path(os.path.realpath(database))
        # Whatever belongs to others is not even given a lock file, and ours costs one short look.
        if not (is_incumbent(database) or _is_half_gone(database)):
            return None
    except ValueError:  # This is no path; whoever opens it says so.
        return None
    # The lease under which databases are made: nobody of ours makes one meanwhile.
    with Lease(database, "rescue").held(timeout=_LEASE_SECONDS):
        try:
            _finish(database)
            return _move(database) if is_incumbent(database) else None
        except (OSError, apsw.Error) as error:
            raise DatabaseError(
                database,
                f"this is the index of freeact's own search, and cannot be renamed ({error}); end "
                "what has it open, make its folder writable, or choose another path",
            ) from error


def is_incumbent(database: Path) -> bool:
    """Return whether a file is the database of freeact's own search; it is left as it is."""
    try:
        # A pipe would be waited for.
        is_unmarked = database.is_file() and application_id(database) == 0
        return is_unmarked and _has_its_tables(database)
    except (OSError, apsw.Error):
        # It is damaged, locked, or of another kind: opening it as ours says which.
        return False


def _has_its_tables(database: Path) -> bool:
    try:
        with closing(apsw.Connection(str(database), flags=_READ_WRITE)) as connection:
            connection.set_busy_timeout(_LOCK_MS)
            # Not ours, as far as is known: closing must not move its log into the file.
            has_log = _size(_log(database)) > 0
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, has_log)
            return _are_its_tables(connection)
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError):
        # Nothing can be written here, so not even a log can be looked into.
        uri = f"{database.as_uri()}?immutable=1"
        with closing(apsw.Connection(uri, flags=_AS_IT_LIES)) as connection:
            return _are_its_tables(connection)


def _are_its_tables(connection: apsw.Connection) -> bool:
    if connection.pragma("user_version") != 0 or connection.pragma("application_id") != 0:
        return False
    statements: dict[str, str] = {}
    for kind, name, table, sql in connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_schema"
    ):
        if name in _STATEMENTS:
            statements[name] = " ".join(str(sql).split())
        elif (kind, name) not in _PARTS and not (kind == "index" and sql is None and table in _OWN):
            return False
    # A kill may have come before the second was made.
    return "entries_vec" in statements and all(
        _STATEMENTS[name].fullmatch(sql) for name, sql in statements.items()
    )


def _move(database: Path) -> Path:
    aside = next(path for path in _names(database) if not any(map(os.path.lexists, _files(path))))
    if _is_one_file(database):
        database.rename(aside)
    else:
        _move_beside_its_users(database, aside)
    return aside


def _is_one_file(database: Path) -> bool:
    """Move the log into the file, and tell whether that was done: nobody else may have it open."""
    with closing(apsw.Connection(str(database), flags=_READ_WRITE)) as connection:
        try:
            return bool(connection.pragma("journal_mode", "delete") == "delete")
        except (apsw.BusyError, apsw.LockedError):
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, True)
            return False


def _move_beside_its_users(database: Path, aside: Path) -> None:
    """Rename the file with its log and that one's index, which others go on using.

    Three files cannot be renamed at once: a file whose log is still elsewhere would lose what is
    in there. So all get their second name before any loses its first. SQLite sees that a file
    has moved, and touches none at the old path when its last user ends.
    """
    for old, new in zip(_files(database), _files(aside), strict=True):
        with suppress(FileNotFoundError):
            os.link(old, new)
    for old in _files(database):
        old.unlink(missing_ok=True)


def _is_half_gone(database: Path) -> bool:
    _, *beside = _files(database)
    return not os.path.lexists(database) and any(map(os.path.lexists, beside))


def _finish(database: Path) -> None:
    """End what a kill has interrupted: begun names are given up, and done ones completed."""
    for aside in _names(database):
        # Names are taken in order, so behind the first that is free there are none.
        if not any(map(os.path.lexists, _files(aside))):
            return
        if _is_same(database, aside):
            # In this order the file itself, by which this is recognised, goes last.
            for new in reversed(_files(aside)):
                new.unlink(missing_ok=True)
        elif not os.path.lexists(database):
            for old, new in zip(_files(database), _files(aside), strict=True):
                if _is_same(old, new):
                    old.unlink()


def _names(database: Path) -> Iterator[Path]:
    yield database.with_name(f"{database.name}.freeact")
    for number in count(2):
        yield database.with_name(f"{database.name}.freeact-{number}")


def _files(database: Path) -> tuple[Path, Path, Path]:
    return database, _log(database), database.with_name(f"{database.name}-shm")


def _log(database: Path) -> Path:
    return database.with_name(f"{database.name}-wal")


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


def _is_same(one: Path, other: Path) -> bool:
    with suppress(OSError):
        return one.samefile(other)
    return False
