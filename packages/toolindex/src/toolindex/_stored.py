"""What the index stores about files: read once, compared with a scan, validated before use."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, cast

from toolindex._meta import generation, is_complete, is_current
from toolindex.errors import UnreadableRowError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    import apsw

_COLUMNS = "path, id, file_hash, size, mtime_ns, ctime_ns, inode"
Stamp = tuple[int, int, int, int]
"""Size, modification time, change time and inode, as in toolscan's records."""
_Row = tuple[str, str, str, int | None, int | None, int | None, int | None]
_WRAP = 1 << 64
_SIGNED = 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEntry:
    """What the index stores about one tool's file.

    Attributes:
        id: The tool's id as text.
        path: The file, posix, relative to the root.
        file_hash: SHA-256 of its bytes, in hex.
        stamp: Its stamp from the file system, or None if that cannot be trusted.
    """

    id: str
    path: str
    file_hash: str
    stamp: Stamp | None


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """What the index stores about all files, or those at some paths, at one moment.

    Pass `stamps` and `hashes` to `toolscan.scan(known=…, hashes=…)`, and the object itself to
    `ToolIndex.sync`, which then need not read it again.

    Attributes:
        generation: The state of the index that was read.
        within: The paths, or None for all.
        is_current: Whether the current version of the reader made all entries; if not, no stamps
            are known.
        is_complete: Whether a whole tree has been synced since the index was created.
    """

    generation: int
    within: frozenset[str] | None
    is_current: bool
    is_complete: bool
    _rows: list[_Row] = field(repr=False)

    @classmethod
    def of(
        cls,
        entries: Iterable[StoredEntry],
        *,
        generation: int,
        within: Collection[str] | None = None,
        is_current: bool = True,
        is_complete: bool = True,
    ) -> StoredFiles:
        """Create the object from entries, for other implementations of a store."""
        return cls(
            generation=generation,
            within=_normal(within),
            is_current=is_current,
            is_complete=is_complete,
            _rows=[(e.path, e.id, e.file_hash, *stamp_columns(e.stamp)) for e in entries],
        )

    @property
    def stamps(self) -> dict[str, Stamp]:
        """The stamps, by path, of files that need not be read if their stamps are the same."""
        if not self.is_current:
            return {}
        return {row[0]: stamp for row in self._rows if (stamp := _stamp(row)) is not None}

    @property
    def hashes(self) -> dict[str, str]:
        """The hashes, by path, of files that need not be parsed if their content is the same."""
        return {row[0]: row[2] for row in self._rows} if self.is_current else {}

    @property
    def entries(self) -> dict[str, StoredEntry]:
        """The entries by id."""
        return {
            row[1]: StoredEntry(id=row[1], path=row[0], file_hash=row[2], stamp=_stamp(row))
            for row in self._rows
        }

    def is_exactly(self, paths: Collection[str]) -> bool:
        """Return whether these are exactly the stored paths."""
        return {row[0] for row in self._rows} == set(paths)


def stored_files(
    connection: apsw.Connection, *, reader_version: str, within: Collection[str] | None
) -> StoredFiles:
    """Read what `ToolIndex.stored` returns, inside the caller's transaction."""
    limits = _normal(within)
    if limits is None:
        rows = connection.execute(f"SELECT {_COLUMNS} FROM entries")  # noqa: S608 - a constant
    else:
        # As one JSON value, which allows any number of paths. "0" is the character after "/".
        rows = connection.execute(
            f"SELECT {_COLUMNS} FROM entries "  # noqa: S608 - a constant
            "WHERE path IN (SELECT value FROM json_each(?1)) "
            f"UNION SELECT {_COLUMNS} FROM (SELECT value AS folder FROM json_each(?1)) "
            # Otherwise SQLite would read all entries and look up the folder of each.
            "CROSS JOIN entries ON path > folder || '/' AND path < folder || '0'",
            (json.dumps(sorted(limits)),),
        )
    found = cast("list[_Row]", rows.fetchall())
    if not all(isinstance(it, str) for row in found for it in row[:3]):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UnreadableRowError("path")
    return StoredFiles(
        generation=generation(connection),
        within=limits,
        is_current=is_current(connection, reader_version),
        is_complete=is_complete(connection),
        _rows=found,
    )


def is_true(
    stored: StoredFiles,
    connection: apsw.Connection,
    reader_version: str,
    within: Collection[str] | None,
) -> bool:
    """Return whether reading again for these paths and this version would return the same."""
    return (
        stored.generation == generation(connection)
        and stored.is_current == is_current(connection, reader_version)
        and stored.is_complete == is_complete(connection)
        and stored.within == _normal(within)
    )


def _normal(within: Collection[str] | None) -> frozenset[str] | None:
    limits = None if within is None else frozenset(str(PurePosixPath(path)) for path in within)
    return None if limits is None or "." in limits else limits


def stamp_columns(
    stamp: Stamp | None,
) -> tuple[int | None, int | None, int | None, int | None]:
    """Return the values of `size`, `mtime_ns`, `ctime_ns` and `inode`."""
    if stamp is None or stamp[3] >= _WRAP:
        return None, None, None, None
    size, mtime_ns, ctime_ns, inode = stamp
    # SQLite's integers are signed.
    return size, mtime_ns, ctime_ns, inode - _WRAP if inode >= _SIGNED else inode


def _stamp(row: _Row) -> Stamp | None:
    *_, size, mtime_ns, ctime_ns, inode = row
    if size is None or mtime_ns is None or ctime_ns is None or inode is None:
        return None
    return size, mtime_ns, ctime_ns, inode if inode >= 0 else inode + _WRAP
