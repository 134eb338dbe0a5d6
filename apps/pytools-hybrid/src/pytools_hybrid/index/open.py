"""Opening the store of some trees: an SQLite file, or this host's copy of a shared index.

All processes of a host that use the same tree of a shared index share one copy: the first one that
searches after a change fetches it for all of them. Separate copies would be fetched and stored once
for each process, and a command that runs for a second would have no copy to search while the server
is unreachable.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
from contextlib import closing, suppress
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import apsw
from toolindex import (
    DamagedDatabaseError,
    DatabaseBusyError,
    DatabaseError,
    ForeignDatabaseError,
    Lease,
    NewerSchemaError,
    ToolIndex,
    ToolIndexError,
)

from pytools_hybrid.index.store import SQLiteStore

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from toolindex import ToolStore
    from toolindex_postgres import Freshness
    from toolscan import ToolRecord

    from pytools_hybrid.settings import Roots, Settings

_log = logging.getLogger("pytools_hybrid")

_LEASE_SECONDS = 60.0
_LOCK_MS = 5_000
# The tables of freeact's database: two virtual ones, and their shadow tables.
_VECTORS = frozenset(
    f"entries_vec{part}" for part in ("", "_info", "_chunks", "_rowids", "_vector_chunks00")
)
_WORDS = frozenset(
    f"entries_fts{part}" for part in ("", "_data", "_idx", "_content", "_docsize", "_config")
)
# Files that remain if a process is killed.
_LEFT = ("-wal", "-journal", ".lock")


@runtime_checkable
class SharedIndex(Protocol):
    """A store that hosts share, with methods in addition to those of `toolindex.ToolStore`."""

    def freshness(self, *, asks: bool = True) -> Freshness:
        """Return how old the copy is."""
        ...

    def records(self, ids: Collection[str]) -> Sequence[ToolRecord]:
        """Return the whole records of some tools, for hosts without their files."""
        ...


def open_store(roots: Roots, settings: Settings) -> ToolStore:
    """Open the store of some trees: a file, or an index that many hosts share.

    A file that cannot be written is opened read-only, and a database of freeact's own search at its
    path is renamed. While the server of a shared index cannot be reached, this opens the last copy,
    or an empty one if this host has none. The trees need not exist if the index is only read.

    Raises:
        SettingsError: The tree of a shared index is not named.
        DatabaseError: The file can be neither written nor read, or belongs to other trees; or the
            server has no index, or one of a later version.
    """
    database, weights = settings.resolved_database(roots), settings.field_weights
    if (server := settings.resolved_server(roots)) is not None:
        only_reads = settings.only_reads
        copy = _open_sqlite(_writable(database), weights)
        # If files are never scanned, the copy does not belong to a root.
        name = str(server) if only_reads else roots.identity
        return _bound(server.open(copy, read_only=only_reads), name)
    if (aside := rename_freeact_database(database)) is not None:
        _log.warning(
            "%s was the index of freeact's own search: it was renamed to %s; creating a new one",
            database,
            aside,
        )
    store = _bound(_open_sqlite(database, weights), roots.identity)
    if _is_in_our_cache(database):
        _remove_leftovers(database)
    return store


def _bound(store: ToolStore, name: str) -> ToolStore:
    """Bind a store that was just opened to some trees, and set its file aside if it is damaged.

    The store is closed if that fails.
    """
    if store.damaged is not None:
        _log.warning("%s", damage_note(store.damaged))
    name = os.fsencode(name).decode("utf-8", "backslashreplace")
    try:
        try:
            store.bind(name)
        except DamagedDatabaseError:
            if (aside := store.quarantine()) is None:
                raise
            _log.warning("%s", damage_note(aside))
            store.bind(name)
    except BaseException:
        store.close()
        raise
    return store


def damage_note(aside: Path) -> str:
    """Return the message for a damaged file that was renamed."""
    name, _, _ = aside.name.rpartition(".corrupt-")
    # What became of the file that cannot be rebuilt is logged by the index.
    then = "" if name.endswith("-kept") else ", and is being rebuilt"
    return f"{aside.with_name(name)} was damaged: it was renamed to {aside}{then}"


def _open_sqlite(database: Path, field_weights: Mapping[str, float] | None) -> SQLiteStore:
    """Open a file, read-only if it cannot be written."""
    try:
        return SQLiteStore(database, field_weights=field_weights)
    except ForeignDatabaseError:
        if not _is_in_our_cache(database):
            raise
        # No other program has files there. With the second file beside it, an index counts as
        # damaged, whatever its header says.
        with suppress(OSError):
            ToolIndex.files(database).durable.touch()
        return SQLiteStore(database, field_weights=field_weights)
    except (DatabaseBusyError, NewerSchemaError):
        raise
    except DatabaseError as error:
        # An index on a read-only medium can still be searched.
        try:
            store = SQLiteStore(database, read_only=True, field_weights=field_weights)
        except DatabaseError:
            raise error from None
        _log.warning("the index cannot be written, so it is used as it is: %s", error)
        return store


def _writable(database: Path) -> Path:
    """Return the path of the local file, in a temporary folder if its own cannot be written."""
    folder = database.parent
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    if os.access(folder, os.W_OK):
        return database
    own = Path(tempfile.mkdtemp(prefix="pytools-hybrid-"))
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    _log.warning("%s cannot be written: this process uses %s until it ends", folder, own)
    return own / database.name


def _is_in_our_cache(database: Path) -> bool:
    """Return whether a file is in the user's cache folder for this program."""
    from platformdirs import user_cache_path

    ours = os.path.realpath(user_cache_path("pytools-hybrid"))
    return os.path.dirname(os.path.realpath(database)) == ours  # noqa: PTH120


def _remove_leftovers(opened: Path) -> None:
    """Remove indexes without tools that killed processes have left, with their locks."""
    files = [it for it in opened.parent.glob("*.db-*") if it.name.endswith(_LEFT)]
    names = {it.name.rpartition(".db-")[0] + ".db" for it in files} - {opened.name}
    for name in names:
        # A process that uses it removes it at its end; do not wait for that here.
        with suppress(ToolIndexError, OSError):
            ToolIndex.remove(opened.with_name(name), only_empty=True)


def server_unreachable(store: ToolStore) -> str:
    """Return why the server of a shared index was unreachable at the last access, or ""."""
    return store.freshness(asks=False).problem if isinstance(store, SharedIndex) else ""


def size_on_disk(database: Path) -> int:
    """Return the size of an index's files and their logs in bytes; a missing file has none."""
    size = 0
    for part in ToolIndex.files(database):
        for file in (part, part.with_name(f"{part.name}-wal")):
            # SQLite removes a log when its last user closes it.
            with suppress(OSError):
                size += file.stat().st_size
    return size


def rename_freeact_database(database: Path) -> Path | None:
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
        if not is_freeact_database(database):
            return None
        first = database.with_name(f"{database.name}.freeact")
        others = (first.with_name(f"{first.name}-{number}") for number in count(2))
        aside = next(path for path in chain([first], others) if not os.path.lexists(path))
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


def is_freeact_database(database: Path) -> bool:
    """Return whether a file is the database of freeact's own search; nothing is changed."""
    try:
        if not _is_unmarked(database):
            return False
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
