"""Removing an index with all its files, unless it is open elsewhere."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import apsw

from toolindex._header import application_id
from toolindex._lease import Lease
from toolindex._opening import translated
from toolindex._parts import PARTS, backup_path, beside, kept_path
from toolindex.errors import LeaseHeldError

# If any of these has a row, something would be lost.
_CONTENT = ("entries", "embeddings", "searches", "outcomes")
_MARKS = frozenset(part.application_id for part in PARTS)


def remove_index(path: Path, *, only_empty: bool = False) -> bool:
    """Remove an index: its two files, the copy, their logs, its lock files, and damaged files.

    Nobody can open it in the meantime, and later processes create a new one. If this is killed, the
    usage record is left.

    Args:
        path: The index. Any other file is left alone.
        only_empty: Keep an index with tools, vectors or a usage record, and damaged files.

    Returns:
        Whether it was removed: not if it is open elsewhere, or not empty.

    Raises:
        DatabaseError: It cannot be opened or removed.
    """
    # As in `ToolIndex`, links are resolved: the other files are beside the target.
    path = Path(os.path.realpath(path))
    files = [file for file in (path, kept_path(path)) if file.is_file()]
    backup = backup_path(path)
    if only_empty and any(map(_seems_full, [*files, backup] if backup.is_file() else files)):
        return False
    try:
        with Lease(path, "rescue").held(timeout=0), ExitStack() as stack:
            for file in files:
                if (mark := application_id(file)) not in _MARKS and mark != 0:
                    return False
                connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READWRITE)
                stack.callback(connection.close)
                # If a process was killed, the mark may still be in the log.
                if connection.pragma("application_id") not in _MARKS:
                    return False
                connection.pragma("locking_mode", "exclusive")
                # This only works for the sole user, and moves the log into the file.
                if connection.pragma("journal_mode", "delete") != "delete":
                    return False
                connection.execute("BEGIN EXCLUSIVE")
                if only_empty and _holds_something(connection):
                    return False
            # The copy goes before its original: if this is killed, nothing comes back. Damaged
            # files may have data that a kept index has lost.
            aside = [backup] if backup.is_file() else []
            aside += path.parent.glob(f"{_escaped(kept_path(path).name)}*.new")
            aside += [] if only_empty else _set_aside(path)
            for each in (*aside, *(each for file in files for each in (*beside(file), file))):
                each.unlink(missing_ok=True)
    except (LeaseHeldError, apsw.BusyError, apsw.LockedError):
        return False
    except apsw.Error as error:
        raise translated(path, error) from error
    for lock in path.parent.glob(f"{_escaped(path.name)}-*.lock"):
        lease = Lease(path, lock.name.removeprefix(f"{path.name}-").removesuffix(".lock"))
        with suppress(LeaseHeldError), lease.held(timeout=0):
            pass
    return bool(files or aside)


def _set_aside(path: Path) -> list[Path]:
    return [
        each
        for file in (path, kept_path(path), backup_path(path))
        for why in ("corrupt", "old")
        for each in path.parent.glob(f"{_escaped(file.name)}.{why}-*")
        if each.is_file()
    ]


def _seems_full(file: Path) -> bool:
    """Look without a lock, so that an index in use is not disturbed."""
    with (
        suppress(apsw.Error),
        closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)) as connection,
    ):
        return _holds_something(connection)
    return False


def _holds_something(connection: apsw.Connection) -> bool:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    return any(
        connection.execute(f"SELECT EXISTS (SELECT 1 FROM {table})").get  # noqa: S608 - constants
        for table in _CONTENT
        if table in tables
    )


def _escaped(name: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)
