"""Numbers that tell the states of an index and of its kept data apart."""

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
