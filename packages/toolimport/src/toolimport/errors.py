"""Errors of imports, servers and calls."""

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
    """Base class of every error raised by toolimport itself."""


class OptionError(ToolImportError):
    """An invalid argument of an import.

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
    """A servers file that cannot be used.

    Attributes:
        file: The file.
        line: The line, from 1; None if the problem is not at one place.
        column: The column, from 1.
        place: The file, line and column as text.
        reason: What is wrong.
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
    """A tool could not be called, or its server reported a failure.

    Attributes:
        server: The server's name.
        tool: The tool's name on the server.
        detail: What went wrong, in the server's own words if it answered.
        answer: The tool's answer if it ran and only its answer is invalid, or None.
    """

    def __init__(self, server: str, tool: str, detail: str, *, answer: object = None) -> None:
        super().__init__(f"{server}: {tool}: {detail}")
        self.answer = answer
        self.server = server
        self.tool = tool
        self.detail = detail
