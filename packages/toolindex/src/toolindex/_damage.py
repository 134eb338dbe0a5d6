"""Telling damage from a failure that passes: only what is shown to be damaged is set aside."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING

import apsw

from toolindex._migrations import expected_columns
from toolindex._opening import open_connection, translated
from toolindex._vectors import vector_tables
from toolindex.errors import DamagedDatabaseError, DatabaseError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["diagnosed"]

# What SQLite and sqlite-vec say when something of ours is not as it was made. They say the same
# when a file could not be opened or memory was short: sqlite-vec keeps no cause of its failures.
_SUSPICION = re.compile(
    r"no such table: (main\.)?(meta|entries|embeddings|models|refusals|query_embeddings|searches|"
    r"outcomes)|no such column|has no column|no such module|vectors blob|vector data|chunk|"
    r"validity|sqlite-vec|vtable constructor|fts5: ",
    re.IGNORECASE,
)


def diagnosed(path: Path, error: apsw.Error) -> DatabaseError:
    """Give the error of this package for one of the driver's, on a database that was open.

    Args:
        path: The database file.
        error: What the driver raised. If it could mean damage, the database is looked through.
    """
    meaning = translated(path, error, is_open=True)
    if type(meaning) is not DatabaseError or not isinstance(error, apsw.SQLError):
        return meaning
    if not _SUSPICION.search(str(error)):
        return meaning
    try:
        return DamagedDatabaseError(path) if _is_damaged(path) else meaning
    except DatabaseError as cannot_tell:
        return cannot_tell
    except OSError:  # What the schema should be could not be read.
        return meaning


def _is_damaged(path: Path) -> bool:
    expected = expected_columns()
    try:
        connection = open_connection(path, read_only=True).connection
    except DamagedDatabaseError:
        return True
    with closing(connection):
        try:
            # All files are open after the first look: from here on, none can be lacking.
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute("BEGIN")
            if connection.execute("PRAGMA integrity_check(1)").get != "ok":
                return True
            for table, columns in expected.items():
                connection.execute(f"SELECT {', '.join(columns)} FROM {table} LIMIT 0")  # noqa: S608
            for vectors in vector_tables(connection):
                _read_through(connection, vectors.name)
        except (apsw.SQLError, apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError):
            # Our own statements are right, and no file was lacking.
            return True
        except apsw.Error as error:
            raise translated(path, error, is_open=True) from error
    return False


def _read_through(connection: apsw.Connection, table: str) -> None:
    vector = None
    for _, vector in connection.execute(f"SELECT rowid, embedding FROM {table}"):  # noqa: B007, S608
        pass
    # A search reads what a look at each row leaves out: which rows of each chunk are in use.
    nearest = f"SELECT rowid FROM {table} WHERE embedding MATCH ? AND k = 1"  # noqa: S608
    if vector is not None:
        connection.execute(nearest, (vector,)).fetchall()
