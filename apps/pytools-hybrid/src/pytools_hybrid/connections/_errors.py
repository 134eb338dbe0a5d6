"""What can be wrong with a file of servers, and with one server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytools_hybrid.errors import PytoolsError, SettingsError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["ServerError", "ServersFileError"]


class ServersFileError(SettingsError):
    """A file of servers that cannot be used.

    Attributes:
        file: The file.
        line: Where in it, from 1; None where it is no matter of a place.
        column: Where in the line, from 1.
    """

    def __init__(
        self, file: Path, message: str, *, line: int | None = None, column: int | None = None
    ) -> None:
        place = "" if line is None else f", line {line}, column {column}"
        super().__init__(f"{file}{place}", message)
        self.file = file
        self.line = line
        self.column = column


class ServerError(PytoolsError):
    """A server that cannot be reached, or whose entry cannot be used.

    Attributes:
        server: Its name in the file.
        detail: What is wrong with it, without the name.
    """

    def __init__(self, server: str, detail: str) -> None:
        super().__init__(f"server {server!r}: {detail}")
        self.server = server
        self.detail = detail
