"""Opening the store of some trees, whatever lies at its path.

That may be the database of freeact's own search, a damaged file, or one that cannot be written.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import closing, suppress
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
from toolindex import (
    DamagedDatabaseError,
    DatabaseBusyError,
    DatabaseError,
    ForeignDatabaseError,
    Lease,
    NewerSchemaError,
    TooManyFilesError,
    application_id,
    kept_path,
)

from pytools_hybrid.index._store import SQLiteStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolindex import ToolStore

    from pytools_hybrid.settings import Roots, Settings

_log = logging.getLogger("pytools_hybrid")

_LEASE_SECONDS = 60.0
_LOCK_MS = 5_000
_PAUSE_SECONDS = 0.02
# Its two tables with those in which they keep their rows.
_VECTORS = frozenset(
    f"entries_vec{part}" for part in ("", "_info", "_chunks", "_rowids", "_vector_chunks00")
)
_WORDS = frozenset(
    f"entries_fts{part}" for part in ("", "_data", "_idx", "_content", "_docsize", "_config")
)
_READ_WRITE = apsw.SQLITE_OPEN_READWRITE
_AS_IT_LIES = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


def open_store(roots: Roots, settings: Settings) -> ToolStore:
    """Open the store of some trees: a file, or what many hosts share.

    Args:
        roots: The trees.
        settings: What name it.

    Raises:
        SettingsError: What a shared one needs is not installed, or nothing says which tree it is.
        DatabaseError: As for `open_file`; or the server cannot be reached, and there is no copy.
    """
    if settings.server is None:
        return open_file(roots, settings)
    from pytools_hybrid.index._shared import open_shared

    return open_shared(roots, settings)


def open_file(roots: Roots, settings: Settings) -> SQLiteStore:
    """Open the file of some trees, for reading only where nothing can be written.

    The database of freeact's own search, where one lies at the path, is set aside.

    Args:
        roots: The trees.
        settings: What name its file, and how much words count in the parts of a tool.

    Raises:
        DatabaseError: It can be neither written nor read, or is that of other trees.
    """
    database, field_weights = settings.resolved_database(roots), settings.field_weights
    if (aside := set_aside_incumbent(database)) is not None:
        _log.warning(
            "%s was the index of freeact's own search: it was renamed to %s; creating a new one",
            database,
            aside,
        )
    store = _opened(database, field_weights)
    if store.damaged is not None:
        _log.warning("%s", damage_note(store.damaged))
    name = os.fsencode(roots.full_names).decode("utf-8", "backslashreplace")
    try:
        try:
            store.bind(name)
        except DamagedDatabaseError:
            if (aside := store.set_aside()) is None:
                raise
            _log.warning("%s", damage_note(aside))
            store.bind(name)
    except DatabaseError:
        store.close()
        raise
    return store


def damage_note(aside: Path) -> str:
    """Return the message for a damaged file that was renamed."""
    file = aside.with_name(aside.name.rpartition(".corrupt-")[0])
    return f"{file} was damaged: it was renamed to {aside}, and is being rebuilt"


def _opened(database: Path, field_weights: Mapping[str, float] | None) -> SQLiteStore:
    try:
        return SQLiteStore(database, field_weights=field_weights)
    except ForeignDatabaseError:
        if not _is_in_our_cache(database):
            raise
        # Nobody else has files there. With the second file beside it, an index is recognised as a
        # damaged one, whatever its header says.
        with suppress(OSError):
            kept_path(database).touch()
        return SQLiteStore(database, field_weights=field_weights)
    except (DatabaseBusyError, NewerSchemaError, TooManyFilesError):
        raise
    except DatabaseError as error:
        # A medium that cannot be written can still be searched.
        try:
            store = SQLiteStore(database, read_only=True, field_weights=field_weights)
        except DatabaseError:
            raise error from None
        _log.warning("the index cannot be written, so it is searched as it is: %s", error)
        return store


def _is_in_our_cache(database: Path) -> bool:
    from platformdirs import user_cache_path

    ours = os.path.realpath(user_cache_path("pytools-hybrid"))
    return os.path.dirname(os.path.realpath(database)) == ours  # noqa: PTH120


def set_aside_incumbent(database: Path) -> Path | None:
    """Rename the database of freeact's own search, so that ours can be made at its path.

    It is kept as `search.db.freeact`, whole, with what was committed to its log only. Anything
    else at the path is left as it is. Its vectors are not taken over: freeact embeds the docstring
    alone, ours are of another text, and vectors of different texts cannot be compared.

    Args:
        database: Where our database will be.

    Returns:
        Its new path, `search.db.freeact-2` where that name is taken, or None if there was none.

    Raises:
        DatabaseError: It is one, and is in use or cannot be renamed.
        LeaseHeldError: Another process has been making a database at the path for a minute.
    """
    try:
        database = Path(os.path.realpath(database))
        # Whatever belongs to others is not even given a lock file, and ours costs one short look.
        if not is_incumbent(database):
            return None
    except ValueError:  # This is no path; whoever opens it says so.
        return None
    # The lease under which databases are made: nobody of ours makes one meanwhile.
    with Lease(database, "rescue").held(timeout=_LEASE_SECONDS):
        if not is_incumbent(database):
            return None
        try:
            _move_log_into(database)
            aside = _free_name(database)
            database.rename(aside)
        except (OSError, apsw.Error) as error:
            raise DatabaseError(
                database,
                f"this is the index of freeact's own search, and cannot be renamed ({error}); end "
                "what has it open, make its folder writable, or choose another path",
            ) from error
        return aside


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
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, _has_log(database))
            return _are_its_tables(connection)
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError):
        # Nothing can be written here, so not even a log can be looked into.
        uri = f"{database.as_uri()}?immutable=1"
        with closing(apsw.Connection(uri, flags=_AS_IT_LIES)) as connection:
            return _are_its_tables(connection)


def _are_its_tables(connection: apsw.Connection) -> bool:
    if connection.pragma("user_version") != 0 or connection.pragma("application_id") != 0:
        return False
    # What SQLite makes by itself, as an index of a key, has no statement or a name of its own.
    made = connection.execute("SELECT name FROM sqlite_schema WHERE sql NOTNULL")
    names = frozenset(str(name) for (name,) in made if not str(name).startswith("sqlite_"))
    # A kill may have come before the second was made.
    return names in (_VECTORS, _VECTORS | _WORDS)


def _move_log_into(database: Path) -> None:
    """Make it one file again, which only the last that has it open can do."""
    patience = time.monotonic() + _LOCK_MS / 1000
    while True:
        with closing(apsw.Connection(str(database), flags=_READ_WRITE)) as connection:
            try:
                connection.pragma("journal_mode", "delete")
            except apsw.BusyError:
                # Another of ours may just be looking whose it is; SQLite does not wait for that.
                if time.monotonic() > patience:
                    raise
            else:
                return
        time.sleep(_PAUSE_SECONDS)


def _free_name(database: Path) -> Path:
    first = database.with_name(f"{database.name}.freeact")
    others = (first.with_name(f"{first.name}-{number}") for number in count(2))
    return next(path for path in chain([first], others) if not os.path.lexists(path))


def _has_log(database: Path) -> bool:
    with suppress(OSError):
        return database.with_name(f"{database.name}-wal").stat().st_size > 0
    return False
