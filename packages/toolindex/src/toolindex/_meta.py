"""The table of single values: the root, the reader, and the count of the index's states."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import apsw

__all__ = ["bump_generation", "generation", "get_meta", "set_meta"]


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
    return int(get_meta(connection, "generation") or 0)


def bump_generation(connection: apsw.Connection) -> None:
    """Count one more state of the index: an answer is stale when the count has moved on."""
    set_meta(connection, "generation", str(generation(connection) + 1))
