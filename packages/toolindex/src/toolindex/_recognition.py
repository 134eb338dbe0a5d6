"""Recognising whose file it is, before anything is written to it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import apsw

from toolindex._header import application_id
from toolindex._parts import FORMER_ID, INDEX, KEPT
from toolindex._places import refuse_special_files
from toolindex.errors import (
    DamagedDatabaseError,
    DatabaseError,
    ForeignDatabaseError,
    NewerSchemaError,
)

if TYPE_CHECKING:
    from pathlib import Path

    from toolindex._parts import Part

# No later version will ever reach this: a greater number means damage.
_LATER_VERSIONS = 100


def refuse_other_formats(index: Path, part: Part) -> None:
    """Raise if the first bytes of a file are not those of an SQLite database.

    Raises:
        DamagedDatabaseError: It was ours.
        ForeignDatabaseError: It is another program's.
        DatabaseError: It is not a file.
    """
    file = part.path(index)
    refuse_special_files(file)
    # SQLite treats some files of a few bytes as empty databases, and would overwrite them; and it
    # would read the content of a foreign file from a log beside it.
    with suppress(FileNotFoundError):
        if file.stat().st_size and application_id(file) is None:
            raise broken(index, part)


def broken(index: Path, part: Part) -> DatabaseError:
    """Return the error for a file that SQLite cannot read: damage if it was ours.

    The file itself may no longer show it. But no other program uses the name of our second file, so
    if that exists, there was an index of ours at this path.
    """
    file = part.path(index)
    if _has_mark(file, part) or KEPT.path(index).exists():
        return DamagedDatabaseError(file)
    return ForeignDatabaseError(file)


def recognise(connection: apsw.Connection, index: Path, part: Part, *, schema: str) -> None:
    """Check that an open file is ours, and of a known version.

    This precedes any write: even a change of the journal mode would modify another program's file.

    Raises:
        ForeignDatabaseError: It is another program's.
        DamagedDatabaseError: It is ours, and its header is damaged.
        NewerSchemaError: A later version wrote it.
    """
    file = part.path(index)
    rows = connection.execute(f"SELECT name FROM {schema}.sqlite_schema WHERE type = 'table'")  # noqa: S608
    tables = {name for (name,) in rows}
    if not tables:
        return
    mark = connection.pragma("application_id", schema=schema)
    # No other program uses the names of our other files, nor their marks.
    is_ours = part.suffix or part.tables <= tables or mark == KEPT.application_id
    if mark != part.application_id and is_ours:
        raise DamagedDatabaseError(file, is_former=mark == FORMER_ID)
    if mark != part.application_id:
        raise ForeignDatabaseError(file)
    version = connection.pragma("user_version", schema=schema)
    if version > part.version + _LATER_VERSIONS:
        raise DamagedDatabaseError(file)
    if version > part.version:
        raise NewerSchemaError(file, found=version, supported=part.version)


def is_index(file: Path) -> bool:
    """Return whether a file is empty, or its header says that it is an index."""
    with suppress(OSError, ValueError):
        return file.is_file() and (not file.stat().st_size or _has_mark(file, INDEX))
    return False


def _has_mark(file: Path, part: Part) -> bool:
    with suppress(OSError, apsw.Error):
        return application_id(file) == part.application_id
    return False
