"""The errors of this package, and why something failed as text."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from pathlib import Path

_PERMISSION = "fix its permissions (chmod, chown), or choose another path"
_REMEDIES = {
    errno.EACCES: _PERMISSION,
    errno.EPERM: _PERMISSION,
    errno.EROFS: "choose a writable path",
    errno.ENOSPC: "free some disk space, and run it again",
}


def innermost(error: BaseException) -> BaseException:
    """Return the first error of an exception group, however deeply groups are nested."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def refusal(error: OSError) -> str:
    """Return why the operating system refused access to a file, and what to do about it."""
    reason = error.strerror or str(error)
    remedy = _REMEDIES.get(error.errno or 0)
    return f"{reason}; {remedy}" if remedy else reason


class ToolImportError(Exception):
    """Base class of every error raised by toolimport itself.

    Attributes:
        subject: What it is about: an option, the missing extra, a file with the position, a server.
        reason: What is wrong with it.
    """

    def __init__(self, subject: str, reason: str) -> None:
        super().__init__(f"{subject}: {reason}" if subject else reason)
        self.subject = subject
        self.reason = reason


class ServersFileError(ToolImportError):
    """A servers file that cannot be used; `subject` is the file and the position in it."""

    def __init__(
        self, file: Path, reason: str, *, line: int | None = None, column: int | None = None
    ) -> None:
        super().__init__(
            str(file) if line is None else f"{file}, line {line}, column {column}", reason
        )


class ServerError(ToolImportError):
    """A server that cannot be reached, or whose entry cannot be used."""

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(f"server {server!r}", reason)


class ToolCallError(ToolImportError):
    """A tool could not be called, or its server reported a failure.

    Attributes:
        server: The server's name.
        tool: The tool's name on the server.
        reason: What went wrong, in the server's own words if it answered.
        answer: The tool's answer if it ran and only its answer is invalid, or None.
    """

    def __init__(self, server: str, tool: str, reason: str, *, answer: object = None) -> None:
        super().__init__(f"{server}: {tool}", reason)
        self.server = server
        self.tool = tool
        self.answer = answer
