"""The tables of single values: the root, the reader version, and the counters of states.

These numbers distinguish the states of an index, and of its durable file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from toolindex._errors import DamagedDatabaseError
from toolindex._files import DURABLE

if TYPE_CHECKING:
    import apsw

# Of the largest step, so ten billion states fit into a JSON number.
_RANDOM_BITS = 19
# The version of the reader that made all entries: of a whole tree, or of those so far if a whole
# tree has never been synced.
_READER = "reader_version"
_FILLING = "filling"
GENERATION = "generation"
CHANGED_AT = "changed_at"
_NUMBERED = "numbered"
# How many of the generation's changes concern only vectors; with ":" and a model's name, only the
# vectors of that model.
EMBEDDED = "embedded"


def random_increment(number: int) -> int:
    """Return the number of the state after one.

    The step is random, so that a restored copy of a file that is then changed is never mistaken
    for the original.
    """
    # The module `secrets` takes long to import.
    return number + 1 + (int.from_bytes(os.urandom(4)) >> 32 - _RANDOM_BITS)


def counter(connection: apsw.Connection, name: str) -> int:
    """Return a counter of the durable file; 0 before the first change."""
    value = connection.execute("SELECT value FROM counters WHERE name = ?", (name,)).get
    if value is not None and not isinstance(value, int):
        raise DamagedDatabaseError(Path(connection.db_filename(DURABLE.schema)))
    return value or 0


def set_counter(connection: apsw.Connection, name: str, value: int) -> None:
    connection.execute(
        "INSERT INTO counters (name, value) VALUES (?, ?) "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (name, value),
    )


def bump(connection: apsw.Connection, name: str) -> int:
    """Change a counter of the durable file, and return its new value."""
    value = random_increment(counter(connection, name))
    set_counter(connection, name, value)
    return value


def get_meta(connection: apsw.Connection, key: str) -> str | None:
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def set_meta(connection: apsw.Connection, key: str, value: str) -> None:
    connection.execute(
        "INSERT INTO meta (key, value) VALUES (?, ?) "
        "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (key, value),
    )


def get_number(connection: apsw.Connection, key: str) -> int:
    """Return a value of `meta` that is an integer, or 0 if there is none."""
    value = get_meta(connection, key) or "0"
    try:
        return int(value)
    except ValueError as error:
        raise DamagedDatabaseError(Path(connection.filename)) from error


def is_complete(connection: apsw.Connection) -> bool:
    """Return whether a whole tree has been synced since this database was created."""
    return get_meta(connection, _READER) is not None


def is_current(connection: apsw.Connection, reader_version: str) -> bool:
    """Return whether this version of the reader made all entries."""
    made_by = get_meta(connection, _READER) or get_meta(connection, _FILLING)
    if made_by is None:
        return connection.execute("SELECT 1 FROM entries LIMIT 1").fetchone() is None
    return made_by == reader_version


def note_reader(connection: apsw.Connection, reader_version: str, *, is_whole: bool) -> None:
    """Record which version of the reader made all entries, and if they are of a whole tree."""
    if not is_whole:
        set_meta(connection, _FILLING, reader_version)
        return
    set_meta(connection, _READER, reader_version)
    connection.execute("DELETE FROM meta WHERE key = ?", (_FILLING,))


def forget_reader(connection: apsw.Connection) -> None:
    """Make the next scan read every file again; a complete index stays complete."""
    if is_complete(connection):
        set_meta(connection, _READER, "")
    connection.execute("DELETE FROM meta WHERE key = ?", (_FILLING,))


def is_numbered(connection: apsw.Connection) -> bool:
    """Return whether the last change was made by a version that records the rows of vectors."""
    return get_meta(connection, _NUMBERED) == get_meta(connection, GENERATION)


def bump_generation(connection: apsw.Connection, *, model_id: str | None = None) -> None:
    """Change the number of the index's state, so that earlier answers are stale.

    `model_id` is given if only vectors of one model have changed.
    """
    before = get_number(connection, GENERATION)
    after = random_increment(before)
    for key in (GENERATION, _NUMBERED):
        set_meta(connection, key, str(after))
    for key in (EMBEDDED, f"{EMBEDDED}:{model_id}") if model_id else ():
        set_meta(connection, key, str(get_number(connection, key) + after - before))
