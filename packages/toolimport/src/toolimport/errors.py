"""What can go wrong with an import, with a server, and with a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "GeneratorMissingError",
    "OptionError",
    "ServerError",
    "ServersFileError",
    "ToolCallError",
    "ToolImportError",
]


class ToolImportError(Exception):
    """Root of every error raised by toolimport itself."""


class OptionError(ToolImportError):
    """An argument of an import that cannot work.

    Attributes:
        option: Its name.
        reason: What is wrong with it.
    """

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(f"{option}: {reason}")
        self.option = option
        self.reason = reason


class GeneratorMissingError(ToolImportError):
    """The extra `generate` is not installed."""

    def __init__(self) -> None:
        super().__init__("needs the extra 'generate': install 'toolimport[generate]'")


class ServersFileError(ToolImportError):
    """A file of servers that cannot be used.

    Attributes:
        file: The file.
        line: Where in it, from 1; None where the fault is not at one place.
        column: Where in the line, from 1.
        place: The file with the line and the column.
        reason: What is wrong there.
    """

    def __init__(
        self, file: Path, reason: str, *, line: int | None = None, column: int | None = None
    ) -> None:
        place = str(file) if line is None else f"{file}, line {line}, column {column}"
        super().__init__(f"{place}: {reason}")
        self.file = file
        self.line = line
        self.column = column
        self.place = place
        self.reason = reason


class ServerError(ToolImportError):
    """A server that cannot be reached, or whose entry cannot be used.

    Attributes:
        server: Its name in the file.
        detail: What is wrong with it, without the name.
    """

    def __init__(self, server: str, detail: str) -> None:
        super().__init__(f"server {server!r}: {detail}")
        self.server = server
        self.detail = detail


class ToolCallError(ToolImportError):
    """A tool could not be called, or its server says that it failed.

    Attributes:
        server: The server's name.
        tool: The tool's name there.
        detail: What is wrong: the server's own words where it answered.
    """

    def __init__(self, server: str, tool: str, detail: str) -> None:
        super().__init__(f"{server}: {tool}: {detail}")
        self.server = server
        self.tool = tool
        self.detail = detail
