"""The tables of single values: the root, the reader, and the numbers of states.

These tell the states of an index, and of what is kept beside it, apart.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from toolindex._parts import KEPT
from toolindex.errors import DamagedDatabaseError

if TYPE_CHECKING:
    import apsw

# Ten thousand million states fit in what JSON keeps of a number.
_LARGEST_STEP = 1 << 19
# The reader that made all entries: of a whole tree, or, where a whole tree has never been synced,
# those so far.
_READER = "reader_version"
_FILLING = "filling"


def next_number(number: int) -> int:
    """Return the number of the state after one.

    It moves by a random step, so that a copy of a file which was put back, and has moved on from
    there, is never taken for the one that was there before.
    """
    return number + 1 + secrets.randbelow(_LARGEST_STEP)


def counter(connection: apsw.Connection, name: str) -> int:
    """Return the number of the state that one kind of kept data is in; 0 before the first.

    Raises:
        DamagedDatabaseError: It is something else.
    """
    value = connection.execute("SELECT value FROM counters WHERE name = ?", (name,)).get
    if value is not None and not isinstance(value, int):
        raise DamagedDatabaseError(Path(connection.db_filename(KEPT.schema)))
    return value or 0


def move_on(connection: apsw.Connection, name: str) -> int:
    """Move one kind of kept data on to a new state, and return its number."""
    value = next_number(counter(connection, name))
    connection.execute(
        "INSERT INTO counters (name, value) VALUES (?, ?) "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (name, value),
    )
    return value


def get_meta(connection: apsw.Connection, key: str) -> str | None:
    """Return a value of the `meta` table, or None."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def set_meta(connection: apsw.Connection, key: str, value: str) -> None:
    """Set a value of the `meta` table."""
    connection.execute(
        "INSERT INTO meta (key, value) VALUES (?, ?) "
        "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (key, value),
    )


def generation(connection: apsw.Connection) -> int:
    """Return the counter that moves on with every change that a search could see."""
    return get_number(connection, "generation")


def get_number(connection: apsw.Connection, key: str) -> int:
    """Return a value that is a whole number, 0 where there is none.

    Raises:
        DamagedDatabaseError: It is something else.
    """
    value = get_meta(connection, key) or "0"
    try:
        return int(value)
    except ValueError as error:
        raise DamagedDatabaseError(Path(connection.filename)) from error


def is_complete(connection: apsw.Connection) -> bool:
    """Return whether a whole tree has been synced since this database was made."""
    return get_meta(connection, _READER) is not None


def is_current(connection: apsw.Connection, reader_version: str) -> bool:
    """Return whether this reader made all the entries that there are."""
    made_by = get_meta(connection, _READER) or get_meta(connection, _FILLING)
    if made_by is None:
        return connection.execute("SELECT 1 FROM entries LIMIT 1").fetchone() is None
    return made_by == reader_version


def note_reader(connection: apsw.Connection, reader_version: str, *, is_whole: bool) -> None:
    """Record which reader made all the entries that there are.

    Args:
        connection: A connection inside a write transaction.
        reader_version: The reader.
        is_whole: Whether they are those of a whole tree.
    """
    if not is_whole:
        set_meta(connection, _FILLING, reader_version)
        return
    set_meta(connection, _READER, reader_version)
    connection.execute("DELETE FROM meta WHERE key = ?", (_FILLING,))


def forget_reader(connection: apsw.Connection) -> None:
    """Make the next scan read every file again; an index that is complete stays so."""
    if is_complete(connection):
        set_meta(connection, _READER, "")
    connection.execute("DELETE FROM meta WHERE key = ?", (_FILLING,))


def bump_generation(connection: apsw.Connection) -> None:
    """Distinguish this state of the index from all others: an answer is stale once it moves."""
    set_meta(connection, "generation", str(next_number(generation(connection))))
