"""References in a configuration, such as `${API_KEY}`, and their values."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from toolimport.errors import ServerError
from toolimport.system import read_regular_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_NESTED = re.compile(r"\$\{[^{}]*\$\{")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SEPARATORS = re.compile(r"[^A-Za-z0-9]+")


def workspace_of(file: Path) -> Path:
    """Return the workspace folder of a client, which for `.vscode/mcp.json` is the folder above."""
    folder = file.parent
    return folder.parent if folder.name.startswith(".") else folder


def input_variable(identifier: str) -> str:
    """Return the environment variable for one of VS Code's `${input:…}`."""
    return f"PYTOOLS_INPUT_{_SEPARATORS.sub('_', identifier).strip('_').upper()}"


@dataclass(kw_only=True)
class Variables:
    """Expands the references in one server's entry.

    Args:
        defaults: The values of VS Code's inputs without a variable.

    Attributes:
        taken: The values inserted from the environment, by the variable's name: they may be
            secrets.
    """

    server: str
    workspace: Path
    environment: Mapping[str, str] = field(repr=False)
    defaults: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    taken: dict[str, str] = field(default_factory=dict[str, str], repr=False)

    def expand(self, text: str) -> str:
        """Insert the values; raise `ServerError` for one that is not set, or of an unknown kind."""
        if found := _NESTED.search(text):
            raise ServerError(self.server, f"{found[0]}…: nested references are not supported")
        return _REFERENCE.sub(lambda found: self._value(found[1]), text)

    def rewritten(self, text: str, note: Callable[[str], object]) -> str:
        """Rewrite references as `${NAME}`, noting each name, and insert all other values."""

        def keep(found: re.Match[str]) -> str:
            name = self._variable(found[1])
            if found[1].startswith("file:"):
                # Its content may be a secret.
                name = f"FILE_{_SEPARATORS.sub('_', Path(found[1][5:]).name).strip('_').upper()}"
            if name is None:
                return self._value(found[1])
            note(name)
            return f"${{{name}}}"

        return _REFERENCE.sub(keep, text)

    def _variable(self, reference: str) -> str | None:
        kind, colon, rest = reference.partition(":")
        if colon and kind == "input":
            return input_variable(rest)
        if colon and kind == "env":
            return rest.partition(":-")[0]
        name = reference.partition(":-")[0]
        if _NAME.fullmatch(name) and name not in _PLACES:
            return name
        return None

    def _value(self, reference: str) -> str:
        if reference in _PLACES:
            return _PLACES[reference](self.workspace)
        if reference.startswith("file:"):
            return self._content(Path(reference.removeprefix("file:")))
        name = self._variable(reference)
        if name is None:
            raise ServerError(
                self.server,
                (
                    f"${{{reference}}} is not supported here; use ${{NAME}} for an environment "
                    "variable"
                ),
            )
        value = self.environment.get(name)
        if value is None and reference.startswith("input:"):
            value = self.defaults.get(reference.removeprefix("input:"))
        elif not value and ":-" in reference:
            return reference.partition(":-")[2]
        if value is None:
            asked = f", which answers ${{{reference}}}," if reference.startswith("input:") else ""
            raise ServerError(
                self.server, f"the environment variable {name}{asked} is not set; set it and retry"
            )
        self.taken[name] = value
        return value

    def _content(self, file: Path) -> str:
        try:
            content = read_regular_file(file).decode("utf-8").strip()
        except (OSError, ValueError):
            problem = f"the file {file}, which it refers to, cannot be read"
            raise ServerError(self.server, problem) from None
        self.taken[file.name] = content
        return content


_PLACES: dict[str, Callable[[Path], str]] = {
    "workspaceFolder": str,
    "workspaceRoot": str,
    "workspaceFolderBasename": lambda workspace: workspace.name,
    "userHome": lambda _: str(Path.home()),
    "cwd": lambda _: str(Path.cwd()),
    "pathSeparator": lambda _: os.sep,
    "/": lambda _: os.sep,
}
