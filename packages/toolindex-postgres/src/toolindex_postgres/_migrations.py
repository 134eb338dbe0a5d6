"""The schema's versions, each created from the previous one by a numbered file."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

import psycopg.errors
from toolindex.errors import NewerSchemaError

from toolindex_postgres.errors import SchemaError

if TYPE_CHECKING:
    from toolindex_postgres._connection import Connection

SUPPORTED = 2
"""The version that this package makes."""
# Version 2 only drops what is no longer used, so no host has to wait for it.
_OLDEST = 1


def found_version(connection: Connection) -> int | None:
    """Return the version of the schema, or None if there is none."""
    is_there = "SELECT to_regclass('toolindex.state') IS NOT NULL"
    row = connection.execute(is_there).fetchone()
    if row is None or not row[0]:
        return None
    row = connection.execute("SELECT version FROM toolindex.state").fetchone()
    return None if row is None else int(row[0])


def check_version(where: str, found: int | None) -> None:
    """Reject a schema that this package does not know.

    Raises:
        SchemaError: There is none, or it is too old.
        NewerSchemaError: A later version made it.
    """
    if found is None or found < _OLDEST:
        raise SchemaError(where, found=found, supported=SUPPORTED)
    if found > SUPPORTED:
        raise NewerSchemaError(where, found=found, supported=SUPPORTED)


def migrate(connection: Connection, where: str) -> int:
    """Bring the schema to the version of this package, inside the caller's transaction.

    Concurrent callers wait for each other.

    Returns:
        The previous version, 0 if there was none.

    Raises:
        NewerSchemaError: A later version made it; nothing has changed.
    """
    found = found_version(connection)
    if found is None and _is_created(connection):
        found = 0
    elif found is None or found < SUPPORTED:
        # Only the owner has the right to this lock.
        connection.execute("LOCK TABLE toolindex.state IN SHARE ROW EXCLUSIVE MODE")
        found = found_version(connection) or 0
    if found > SUPPORTED:
        raise NewerSchemaError(where, found=found, supported=SUPPORTED)
    for version in range(found + 1, SUPPORTED + 1):
        script = files("toolindex_postgres").joinpath("migrations", f"{version:04}.sql")
        connection.execute(script.read_bytes())
        connection.execute("UPDATE toolindex.state SET version = %s", (version,))
    return found


def _is_created(connection: Connection) -> bool:
    """Create an empty schema; return False if another process has made one meanwhile."""
    try:
        with connection.transaction():
            connection.execute("CREATE SCHEMA toolindex")
    except (psycopg.errors.DuplicateSchema, psycopg.errors.UniqueViolation):
        if found_version(connection) is None:
            raise
        return False
    return True
