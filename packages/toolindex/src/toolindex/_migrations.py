"""Making the schema in a new database, and bringing that of an older version up to date."""

from __future__ import annotations

import json
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import apsw

from toolindex._descriptors import are_exhausted
from toolindex._rows import entry_segments, name_key, parameters_from_json
from toolindex.errors import (
    DamagedDatabaseError,
    DatabaseError,
    NewerSchemaError,
    TooManyFilesError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

__all__ = ["APPLICATION_ID", "SCHEMA_VERSION", "expected_columns", "migrate"]

APPLICATION_ID = 0x7079746C
"""SQLite's mark in the file header that says whose database this is (`pytl`)."""

SCHEMA_VERSION = 5
"""The newest schema this version reads; a database's own is its `user_version`."""

_TABLES = frozenset(
    {"meta", "entries", "entries_fts", "embeddings", "models", "query_embeddings", "searches"}
    | {"outcomes", "refusals"}
)
_COLUMNS = "SELECT name FROM pragma_table_info(?)"


def migrate(connection: apsw.Connection, path: Path, *, read_only: bool) -> None:
    """Make the tables of an empty database, or add what a later version brought.

    Each step is one transaction: a kill leaves a whole older version, which the next open
    brings on.

    Raises:
        DatabaseError: The database is empty or of an older version, and may not be written.
        DamagedDatabaseError: Tables are missing.
        NewerSchemaError: A later version wrote it.
    """
    is_ours = connection.pragma("application_id") == APPLICATION_ID
    while (version := _version(connection)) < SCHEMA_VERSION:
        if version < 0 or (version == 0 and is_ours):
            raise DamagedDatabaseError(path)
        if read_only:
            raise DatabaseError(
                path,
                "there is no index in this file yet"
                if version == 0
                else "the index is of an older version; open it once where it can be written",
            )
        try:
            _step(connection, version)
        except (apsw.SQLError, ValueError, TypeError, AttributeError) as error:
            # sqlite-vec says no more than that it failed.
            if are_exhausted(error):
                raise TooManyFilesError(path) from error
            # Our own statements are right: what they are for is not as it was made.
            raise DamagedDatabaseError(path) from error
    if version > SCHEMA_VERSION:
        raise NewerSchemaError(path, found=version, supported=SCHEMA_VERSION)
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    if not _TABLES.issubset(name for (name,) in tables):
        raise DamagedDatabaseError(path)


def expected_columns() -> dict[str, tuple[str, ...]]:
    """Give the columns that each table of this version's schema has, by table."""
    with closing(apsw.Connection(":memory:")) as connection:
        for _ in connection.execute(_sql("schema.sql")):
            pass
        return {
            table: tuple(name for (name,) in connection.execute(_COLUMNS, (table,)))
            for table in sorted(_TABLES)
        }


def _version(connection: apsw.Connection) -> int:
    return int(connection.pragma("user_version"))


def _step(connection: apsw.Connection, version: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have taken the step between the look and the lock.
        if _version(connection) == version:
            if version == 0:
                connection.execute(_sql("schema.sql"))
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                reached = SCHEMA_VERSION
            else:
                reached = version + 1
                with _functions(connection):
                    connection.execute(_sql(f"migrations/{reached:04}.sql"))
            connection.execute(f"PRAGMA user_version = {reached}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def _functions(connection: apsw.Connection) -> Generator[None]:
    """Let statements call what SQL cannot compute; a connection that is lent has none of it."""
    functions: dict[str, Callable[..., str]] = {"segments": _segments, "name_key": name_key}
    for name, function in functions.items():
        connection.create_scalar_function(name, function, deterministic=True)
    try:
        yield
    finally:
        for name in functions:
            connection.create_scalar_function(name, None)


def _segments(name: str, description: str, parameters: str, category: str, tags: str) -> str:
    return entry_segments(
        name, description, parameters_from_json(parameters), category, json.loads(tags)
    )


def _sql(name: str) -> str:
    from importlib import resources

    return resources.files("toolindex").joinpath(name).read_text("utf-8")
