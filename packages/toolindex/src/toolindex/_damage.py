"""Distinguishing damage from temporary failures: only files proven to be damaged are set aside."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING

import apsw

from toolindex._migrations import expected_columns
from toolindex._opening import open_part, translated
from toolindex._parts import INDEX, PARTS
from toolindex._vectors import vector_tables
from toolindex.errors import DamagedDatabaseError, DatabaseError

if TYPE_CHECKING:
    from pathlib import Path

    from toolindex._parts import Part

# Messages of SQLite and sqlite-vec if our tables are not as they were created. They are the same if
# a file cannot be opened or memory is short: sqlite-vec does not report causes.
_TABLES = "|".join(table for part in PARTS for table in sorted(part.tables))
_SUSPICION = re.compile(
    rf"no such table: ((main|kept)\.)?({_TABLES})|no such column|has no column|no such module|"
    r"vectors blob|vector data|chunk|validity|sqlite-vec|vtable constructor|fts5: ",
    re.IGNORECASE,
)


class UnreadableRowError(Exception):
    """A row has an invalid value."""

    def __init__(self, column: str) -> None:
        super().__init__(f"its field {column!r} is invalid")


def diagnosed(index: Path, error: apsw.Error) -> DatabaseError:
    """Translate the driver's error on an open index to one of this package.

    If the error could mean damage, both files are checked.
    """
    meaning = translated(index, error, is_open=True)
    is_suspicious = isinstance(error, apsw.SQLError) and _SUSPICION.search(str(error))
    # The driver does not say which file is damaged.
    if not isinstance(meaning, DamagedDatabaseError) and not (
        type(meaning) is DatabaseError and is_suspicious
    ):
        return meaning
    try:
        for part in PARTS:
            if is_damaged(index, part):
                return DamagedDatabaseError(part.path(index))
    except DatabaseError as cannot_tell:
        return meaning if isinstance(meaning, DamagedDatabaseError) else cannot_tell
    except OSError:  # The expected schema could not be read.
        return meaning
    return meaning


def is_damaged(index: Path, part: Part) -> bool:
    """Check one of the files of an index; return whether it is damaged.

    Raises:
        DatabaseError: It cannot be determined whether the file is damaged.
    """
    if not part.path(index).exists():
        return False
    expected = expected_columns(part)
    try:
        connection = open_part(index, part)
    except DamagedDatabaseError:
        return True
    with closing(connection):
        try:
            # After the first read all files are open, so that no file descriptor can be lacking.
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute("BEGIN")
            if connection.execute("PRAGMA integrity_check(1)").get != "ok":
                return True
            if connection.pragma("user_version") != part.version:
                return False
            for table, columns in expected.items():
                connection.execute(f"SELECT {', '.join(columns)} FROM {table} LIMIT 0")  # noqa: S608
            if part is INDEX:
                for vectors in vector_tables(connection):
                    _read_through(connection, vectors.name)
        except (apsw.SQLError, apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError):
            # Our own statements are correct, and no file descriptor was lacking.
            return True
        except apsw.Error as error:
            raise translated(index, error, part, is_open=True) from error
    return False


def _read_through(connection: apsw.Connection, table: str) -> None:
    vector = None
    for _, vector in connection.execute(f"SELECT rowid, embedding FROM {table}"):  # noqa: B007, S608
        pass
    # A search also reads which rows of each chunk are in use.
    nearest = f"SELECT rowid FROM {table} WHERE embedding MATCH ? AND k = 1"  # noqa: S608
    if vector is not None:
        connection.execute(nearest, (vector,)).fetchall()
