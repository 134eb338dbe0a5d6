"""Opening an SQLite file as ours, even if it is damaged or read-only."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from toolindex import (
    DamagedDatabaseError,
    DatabaseBusyError,
    DatabaseError,
    ForeignDatabaseError,
    NewerSchemaError,
    ToolIndex,
)

from pytools_hybrid.index._store import SQLiteStore

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from toolindex import ToolStore

S = TypeVar("S", bound="ToolStore")

_log = logging.getLogger("pytools_hybrid")


def bound(store: S, name: str) -> S:
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


def open_sqlite(database: Path, field_weights: Mapping[str, float] | None) -> SQLiteStore:
    """Open a file, read-only if it cannot be written."""
    try:
        return SQLiteStore(database, field_weights=field_weights)
    except ForeignDatabaseError:
        if not is_in_our_cache(database):
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


def size_on_disk(database: Path) -> int:
    """Return the size of an index's files and their logs in bytes; a missing file has none."""
    size = 0
    for part in ToolIndex.files(database):
        for file in (part, part.with_name(f"{part.name}-wal")):
            # SQLite removes a log when its last user closes it.
            with suppress(OSError):
                size += file.stat().st_size
    return size


def is_in_our_cache(database: Path) -> bool:
    """Return whether a file is in the user's cache folder for this program."""
    from platformdirs import user_cache_path

    ours = os.path.realpath(user_cache_path("pytools-hybrid"))
    return os.path.dirname(os.path.realpath(database)) == ours  # noqa: PTH120
