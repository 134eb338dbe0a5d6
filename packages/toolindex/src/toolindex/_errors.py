"""The errors this package raises; each message names the next thing to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class ToolIndexError(Exception):
    """Base class of every error raised by toolindex."""


class DatabaseError(ToolIndexError):
    """The database cannot be opened, read or written.

    Attributes:
        where: Its file, or its address without the password.
    """

    def __init__(self, where: Path | str, message: str) -> None:
        super().__init__(f"{where}: {message}")
        self.where = where


class DamagedDatabaseError(DatabaseError):
    """The file is an index that cannot be used; `ToolStore.quarantine` makes room for a new one.

    Attributes:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(
            path,
            "the file is damaged; open it where it can be written, and it will be renamed and "
            "rebuilt",
        )
        self.path = path


class DatabaseBusyError(DatabaseError):
    """Another process holds the index, or a lease, for longer; nothing is wrong with it."""

    def __init__(self, where: Path | str, message: str | None = None) -> None:
        super().__init__(
            where,
            message
            or "another process holds the index locked; wait until it is done, and run it again",
        )


class TooManyFilesError(DatabaseBusyError):
    """This process or the machine has no file descriptors left."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            path,
            "too many files are open in this process; close some connections, or raise the limit "
            "(ulimit -n), then run again",
        )


class ForeignDatabaseError(DatabaseError):
    """The file is not a tool index, or that of another tree, and was not changed."""

    def __init__(self, where: Path | str, *, root: str | None = None) -> None:
        super().__init__(
            where,
            "this file is not a tool index and was left as it is; choose another path"
            if root is None
            else f"this is the index of {root}; choose another path for this tree, or delete the "
            "file",
        )


class NewerSchemaError(DatabaseError):
    """The index was written by a newer version of toolindex.

    Attributes:
        found: The schema version of the file.
        supported: The newest version this package reads.
    """

    def __init__(self, where: Path | str, *, found: int, supported: int) -> None:
        super().__init__(
            where,
            f"the index has schema {found}, this version reads up to {supported}; "
            "upgrade, or choose another path",
        )
        self.found = found
        self.supported = supported


class VectorError(ToolIndexError):
    """An embedding model returned vectors that cannot be stored or searched.

    Attributes:
        model_id: The model.
    """

    def __init__(self, model_id: str, message: str) -> None:
        super().__init__(f"embedding model {model_id!r} {message}")
        self.model_id = model_id


class ArgumentError(ToolIndexError, ValueError):
    """An argument of a filter or of a record is invalid.

    Attributes:
        argument: The name of the invalid argument.
    """

    def __init__(self, argument: str, message: str) -> None:
        super().__init__(f"{argument} {message}")
        self.argument = argument
