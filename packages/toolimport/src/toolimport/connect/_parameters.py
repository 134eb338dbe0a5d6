"""The parameters of a connection, with the values of variables, which must never be shown."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from toolimport.errors import ServerError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolimport.connect._secrets import Redactor


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioParameters:
    """The parameters of a server that is started as a process.

    Attributes:
        command: The program's path.
        args: Its arguments.
        env: Its environment variables, in addition to PATH, HOME and the like.
        cwd: The folder to start it in.
        redactor: Knows the secrets among them.
    """

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: Path
    redactor: Redactor = field(repr=False, compare=False)

    @classmethod
    def found(
        cls,
        server: str,
        command: str,
        args: tuple[str, ...],
        env: Mapping[str, str],
        cwd: Path,
        redactor: Redactor,
    ) -> StdioParameters:
        """Look up the program and the folder.

        Raises:
            ServerError: One of them does not exist.
        """
        if not cwd.is_dir():
            raise ServerError(server, f"its folder {cwd} ('cwd') does not exist")
        if "\0" in command or any("\0" in it for it in (*args, *env, *env.values())):
            raise ServerError(server, "its command, args or env contain a NUL character")
        program = _program(command, env, cwd)
        if program is None:
            raise ServerError(
                server,
                f"the command {redactor.text(command)!r} is not found; install it, or give its "
                "full path",
            )
        # Not resolved: a virtual environment's interpreter is a link, which it locates itself by.
        program = os.path.abspath(program)  # noqa: PTH100
        return cls(command=program, args=args, env=env, cwd=cwd, redactor=redactor)


def is_program(command: str, env: Mapping[str, str], cwd: Path) -> bool:
    """Return whether a command is the name or the path of a program."""
    return "\0" not in command and _program(command, env, cwd) is not None


def _program(command: str, env: Mapping[str, str], cwd: Path) -> str | None:
    if os.sep in command or (os.altsep and os.altsep in command):
        return shutil.which(str(cwd / Path(command).expanduser()))
    return shutil.which(command, path=env.get("PATH") or os.environ.get("PATH"))


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpParameters:
    """The parameters of a server at an address.

    Attributes:
        url: The address.
        headers: Headers for each request.
        transport: Streamable HTTP, or the older HTTP with SSE.
        redactor: Knows the secrets among them.
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    transport: Literal["http", "sse"]
    redactor: Redactor = field(repr=False, compare=False)


Parameters = StdioParameters | HttpParameters
