"""Creating the schema in a new database, and migrating older versions."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import apsw

from toolindex._parts import INDEX
from toolindex._places import are_exhausted
from toolindex._vectors import number_rows
from toolindex.errors import (
    DamagedDatabaseError,
    DatabaseError,
    NewerSchemaError,
    TooManyFilesError,
)

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from toolindex._parts import Part

SCHEMA_VERSION = INDEX.version

_COLUMNS = "SELECT name FROM pragma_table_info(?)"


def migrate(
    connection: apsw.Connection, path: Path, part: Part = INDEX, *, read_only: bool
) -> None:
    """Create the tables in an empty database, or apply later migrations.

    Each step is one transaction: a kill leaves a complete older version, which is migrated when
    next opened.

    Raises:
        DatabaseError: The database is empty or of an older version, and cannot be written.
        DamagedDatabaseError: Tables are missing.
        NewerSchemaError: A later version wrote it.
    """
    is_ours = connection.pragma("application_id") == part.application_id
    while (version := _version(connection)) < part.version:
        if version < 0 or (version == 0 and is_ours):
            raise DamagedDatabaseError(path)
        if read_only:
            raise DatabaseError(
                path,
                "this file does not contain an index yet"
                if version == 0
                else "the index is from an older version; open it once where it can be written",
            )
        try:
            _step(connection, part, version)
        except (apsw.SQLError, ValueError, TypeError, AttributeError) as error:
            # sqlite-vec only says that it failed.
            if are_exhausted(error):
                raise TooManyFilesError(path) from error
            # Our own statements are correct, so the database is not as it was created.
            raise DamagedDatabaseError(path) from error
    if version > part.version:
        raise NewerSchemaError(path, found=version, supported=part.version)
    check_tables(connection, path, part, schema="main")


def check_tables(connection: apsw.Connection, path: Path, part: Part, *, schema: str) -> None:
    """Check that a part has its tables."""
    tables = connection.execute(f"SELECT name FROM {schema}.sqlite_schema WHERE type = 'table'")  # noqa: S608
    if not part.tables.issubset(name for (name,) in tables):
        raise DamagedDatabaseError(path)


def expected_columns(part: Part) -> dict[str, tuple[str, ...]]:
    """Return the columns that each table of a part has in this version's schema, by table."""
    with closing(apsw.Connection(":memory:")) as connection:
        for _ in connection.execute(sql_of(part.sql)):
            pass
        return {
            table: tuple(name for (name,) in connection.execute(_COLUMNS, (table,)))
            for table in sorted(part.tables)
        }


def sql_of(name: str) -> str:
    """Return the statements in one of the SQL files of this package."""
    from importlib import resources

    return resources.files("toolindex").joinpath(name).read_text("utf-8")


def _version(connection: apsw.Connection) -> int:
    return int(connection.pragma("user_version"))


def _step(connection: apsw.Connection, part: Part, version: int) -> None:
    with transaction(connection):
        # Another process may have taken the step before this one got the lock.
        if _version(connection) != version:
            return
        if version == 0:
            connection.execute(sql_of(part.sql))
            connection.execute(f"PRAGMA application_id = {part.application_id}")
            reached = part.version
        else:
            reached = version + 1
            connection.execute(sql_of(f"{part.steps}/{reached:04}.sql"))
            if (part, reached) == (INDEX, 2):
                number_rows(connection)
        connection.execute(f"PRAGMA user_version = {reached}")


@contextmanager
def transaction(connection: apsw.Connection) -> Generator[None]:
    """Run a block in a write transaction, which is rolled back if the block raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
