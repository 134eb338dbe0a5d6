"""The errors this package raises; each message names the next thing to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "DatabaseBusyError",
    "DatabaseError",
    "ForeignDatabaseError",
    "ForeignRootError",
    "NewerSchemaError",
    "ReadOnlyIndexError",
    "ToolIndexError",
    "VectorError",
]


class ToolIndexError(Exception):
    """Root of every error raised by toolindex."""


class DatabaseError(ToolIndexError):
    """The database file cannot be opened, read or written.

    Attributes:
        path: The database file.
    """

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path


class DatabaseBusyError(DatabaseError):
    """Another process holds the database locked; nothing is wrong with it."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            path, "another process holds the index locked; wait for it to end, then run again"
        )


class ForeignRootError(DatabaseError):
    """The database is the index of another tree, which is still there.

    Attributes:
        root: The tree that it mirrors.
    """

    def __init__(self, path: Path, *, root: str) -> None:
        super().__init__(
            path,
            f"this is the index of {root}; choose another path for this tree, or delete the file",
        )
        self.root = root


class ForeignDatabaseError(DatabaseError):
    """The file holds something else than a tool index; it has not been touched."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            path, "this file is not a tool index and was left as it is; choose another path"
        )


class NewerSchemaError(DatabaseError):
    """The index was written by a newer version of toolindex.

    Attributes:
        found: The schema version of the file.
        supported: The newest version this package reads.
    """

    def __init__(self, path: Path, *, found: int, supported: int) -> None:
        super().__init__(
            path,
            f"the index has schema {found}, this version reads up to {supported}; "
            "upgrade, or choose another path",
        )
        self.found = found
        self.supported = supported


class ReadOnlyIndexError(DatabaseError):
    """A change was asked of an index that was opened for reading only."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "the index is open for reading only")


class VectorError(ToolIndexError):
    """An embedding model gave vectors that cannot be stored or searched.

    Attributes:
        model_id: The model that gave them.
    """

    def __init__(self, model_id: str, message: str) -> None:
        super().__init__(f"embedding model {model_id!r} {message}")
        self.model_id = model_id
