"""Making and recognising the schema."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from toolindex._connection import APPLICATION_ID, SCHEMA_VERSION
from toolindex.errors import DatabaseError

if TYPE_CHECKING:
    import apsw

    from toolindex._connection import ConnectionPool

__all__ = ["get_meta", "prepare", "set_meta"]


def prepare(pool: ConnectionPool) -> None:
    """Make the tables in an empty database.

    Raises:
        DatabaseError: The database is empty and may not be written.
    """
    with pool.read() as connection:
        if _is_ready(connection):
            return
    if pool.read_only:
        raise DatabaseError(pool.path, "there is no index in this file yet")
    with pool.write() as connection:
        # Another process may have made the tables between the look and the lock.
        if _is_ready(connection):
            return
        connection.execute(resources.files("toolindex").joinpath("schema.sql").read_text("utf-8"))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


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


def _is_ready(connection: apsw.Connection) -> bool:
    return bool(connection.pragma("application_id") == APPLICATION_ID)
