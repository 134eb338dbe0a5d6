"""The table of single values: the root, the reader, and the count of the index's states."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from toolindex.errors import DamagedDatabaseError

if TYPE_CHECKING:
    import apsw

__all__ = ["bump_generation", "generation", "get_meta", "get_number", "set_meta"]

# Ten thousand million states fit in what JSON keeps of a number.
_LARGEST_STEP = 1 << 19


def get_meta(connection: apsw.Connection, key: str) -> str | None:
    """Give a value of the `meta` table, or None."""
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
    """Give the counter that moves on with every change that a search could see."""
    return get_number(connection, "generation")


def get_number(connection: apsw.Connection, key: str) -> int:
    """Give a value that is a whole number, 0 where there is none.

    Raises:
        DamagedDatabaseError: It is something else.
    """
    value = get_meta(connection, key) or "0"
    try:
        return int(value)
    except ValueError as error:
        raise DamagedDatabaseError(Path(connection.filename)) from error


def bump_generation(connection: apsw.Connection) -> None:
    """Tell this state of the index from all others: an answer is stale when it has moved on.

    It moves by a random step, so that a copy of the index which was put back, and has moved on
    from there, is never taken for the one that was there before.
    """
    step = 1 + secrets.randbelow(_LARGEST_STEP)
    set_meta(connection, "generation", str(generation(connection) + step))
