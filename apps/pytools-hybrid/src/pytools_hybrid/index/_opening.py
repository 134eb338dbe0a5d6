"""Opening the store of some trees, even if the database of freeact's own search is at its path."""

from __future__ import annotations

import logging
import os
from contextlib import closing, suppress
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
from toolindex import DatabaseError, Lease, ToolIndex, ToolIndexError

from pytools_hybrid.index._shared import open_shared
from pytools_hybrid.index._sqlite_file import bound, is_in_our_cache, open_sqlite

if TYPE_CHECKING:
    from toolindex import ToolStore

    from pytools_hybrid.index._store import SQLiteStore
    from pytools_hybrid.settings import Roots, Settings

_log = logging.getLogger("pytools_hybrid")

_LEASE_SECONDS = 60.0
_LOCK_MS = 5_000
# Its two virtual tables and their shadow tables.
_VECTORS = frozenset(
    f"entries_vec{part}" for part in ("", "_info", "_chunks", "_rowids", "_vector_chunks00")
)
_WORDS = frozenset(
    f"entries_fts{part}" for part in ("", "_data", "_idx", "_content", "_docsize", "_config")
)
# Files that remain if a process is killed.
_LEFT = ("-wal", "-journal", ".lock")


def open_store(roots: Roots, settings: Settings) -> ToolStore:
    """Open the store of some trees: a file, or an index that many hosts share.

    Raises:
        SettingsError: The tree of a shared index is not named.
        DatabaseError: As for `open_file`; or the server has no index.
    """
    if settings.server is None:
        return open_file(roots, settings)
    return open_shared(roots, settings)


def open_file(roots: Roots, settings: Settings) -> SQLiteStore:
    """Open the file of some trees, read-only if it cannot be written.

    A database of freeact's own search at the path is renamed.

    Raises:
        DatabaseError: It can be neither written nor read, or belongs to other trees.
    """
    database, field_weights = settings.resolved_database(roots), settings.field_weights
    if (aside := set_aside_incumbent(database)) is not None:
        _log.warning(
            "%s was the index of freeact's own search: it was renamed to %s; creating a new one",
            database,
            aside,
        )
    store = bound(open_sqlite(database, field_weights), roots.identity)
    if is_in_our_cache(database):
        _remove_leftovers(database)
    return store


def _remove_leftovers(opened: Path) -> None:
    """Remove indexes without tools that killed processes have left, with their locks."""
    files = [it for it in opened.parent.glob("*.db-*") if it.name.endswith(_LEFT)]
    names = {it.name.rpartition(".db-")[0] + ".db" for it in files} - {opened.name}
    for name in names:
        # A process that uses it removes it at its end; do not wait for that here.
        with suppress(ToolIndexError, OSError):
            ToolIndex.remove(opened.with_name(name), only_empty=True)


def set_aside_incumbent(database: Path) -> Path | None:
    """Rename the database of freeact's own search, so that ours can be created at its path.

    It is kept completely as `search.db.freeact`, including the content of its log. Any other file
    is left as it is. Its vectors are not reused: freeact embeds only docstrings, we embed more, and
    vectors of different texts cannot be compared.

    Returns:
        Its new path, such as `search.db.freeact-2` if the name is taken; None if there was none.

    Raises:
        DatabaseError: It is such a database, but is in use or cannot be renamed.
        DatabaseBusyError: Another process has been creating a database at the path for a minute.
    """
    try:
        database = Path(os.path.realpath(database))
        # Recognising ours is fast, and needs no lock.
        if not _is_unmarked(database):
            return None
    except ValueError:  # An invalid path, which opening it will report.
        return None
    # The lease for creating databases, so that no other process of ours creates or renames one.
    with Lease(database, "rescue").held(timeout=_LEASE_SECONDS):
        if not is_incumbent(database):
            return None
        aside = _free_name(database)
        try:
            with closing(_connected(database)) as connection:
                # Moves its log into the file, which only its last user can do.
                connection.pragma("journal_mode", "delete")
            database.rename(aside)
        except (OSError, apsw.Error) as error:
            raise DatabaseError(
                database,
                f"this is the index of freeact's own search, and cannot be renamed ({error}); "
                "close the programs that have it open, make its folder writable, or choose "
                "another path",
            ) from error
        return aside


def is_incumbent(database: Path) -> bool:
    """Return whether a file is the database of freeact's own search; nothing is changed."""
    try:
        return _is_unmarked(database) and _has_its_tables(database)
    except apsw.Error:
        # It is damaged, locked or of another kind: opening it as ours will report that.
        return False


def _is_unmarked(database: Path) -> bool:
    try:
        # Opening a pipe would block.
        return database.is_file() and ToolIndex.application_id(database) == 0
    except OSError:
        return False


def _connected(database: Path) -> apsw.Connection:
    connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(_LOCK_MS)
    return connection


def _has_its_tables(database: Path) -> bool:
    with closing(_connected(database)) as connection:
        # It may not be freeact's, so closing must not move its log into the file.
        has_log = os.path.exists(f"{database}-wal")  # noqa: PTH110 - no errors
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, has_log)
        if connection.pragma("user_version") != 0:
            return False
        # Objects that SQLite creates itself, such as the index of a key, have no statement.
        made = connection.execute("SELECT name FROM sqlite_schema WHERE sql NOTNULL")
        names = frozenset(str(it) for (it,) in made if not str(it).startswith("sqlite_"))
        # A kill may have prevented the second table.
        return names in (_VECTORS, _VECTORS | _WORDS)


def _free_name(database: Path) -> Path:
    first = database.with_name(f"{database.name}.freeact")
    others = (first.with_name(f"{first.name}-{number}") for number in count(2))
    return next(path for path in chain([first], others) if not os.path.lexists(path))
