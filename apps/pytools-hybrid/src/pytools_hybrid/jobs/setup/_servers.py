"""Copying clients' servers to our own file, adapted so that they work there."""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from toolimport import ServerError

from pytools_hybrid.errors import refusal
from pytools_hybrid.files import replace_file
from pytools_hybrid.jobs.setup._configuration import SetupError, decoded, parsed, read_file
from pytools_hybrid.jobs.setup._json_text import add_members, cut_members, member

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from toolimport.connect import ServerEntry

    from pytools_hybrid.jobs.setup._clients import Client

_OPEN_FOLDER = re.compile(r"\$\{(?:workspace|relativeFile|file|cwd)\w*\}")
_INPUT = re.compile(r"\$\{input:([^{}]+)\}")
_ONLY_OWNER = 0o600


class ServersFile:
    """Our own servers file, which the user may have edited."""

    def __init__(self, path: Path) -> None:
        self.path: Path = path
        self._data = read_file(path)
        self._text = decoded(path, self._data or b"") or "{}\n"
        content = parsed(path, self._text)
        self._section = "servers" if "servers" in content else "mcpServers"
        known: Any = content.get(self._section, {})
        if not isinstance(known, dict):
            raise SetupError(f"{path}: {self._section!r} must be an object")
        self._known: dict[str, Any] = known
        self._added: dict[str, Any] = {}

    @property
    def names(self) -> frozenset[str]:
        """The names of all servers in it, saved or not."""
        return frozenset(self._known | self._added)

    def add(self, definition: Mapping[str, Any], name: str) -> str:
        """Add a server unless it is there, and return its name here.

        Servers that start in the same way, with the same tools switched off, are the same, even
        under different names. If another server has the name, a number is appended.
        """
        for known, it in (self._known | self._added).items():
            if it == definition or self._starts_same(it, definition):
                return known
        numbered = (f"{name}-{number}" for number in count(2))
        free = next(it for it in chain((name,), numbered) if it not in self.names)
        self._added[free] = definition
        return free

    def _starts_same(self, one: object, other: object) -> bool:
        from toolimport import ServersFileError
        from toolimport.connect import servers_in

        try:
            content = {"mcpServers": {"one": one, "other": other}}
            first, second = servers_in(cast("Any", content), self.path)
        except ServersFileError:
            return False
        return first.starts_same(second)

    def save(self) -> None:
        """Write the added servers; only the owner can read a new file."""
        made = [member(name, it, self._text, 2) for name, it in self._added.items()]
        self._write(add_members(self._text, (self._section,), made), self._known | self._added)

    def drop(self, names: Collection[str]) -> None:
        """Remove saved servers that do not work."""
        gone = [name for name in names if name in self._added]
        left = {name: it for name, it in self._known.items() if name not in gone}
        self._write(cut_members(self._text, (self._section,), gone)[0], left)

    def _write(self, text: str, servers: dict[str, Any]) -> None:
        if text == self._text:
            return
        if parsed(self.path, text).get(self._section) != servers:
            raise SetupError(f"{self.path} cannot be changed without losing something in it")
        if read_file(self.path) != self._data:
            raise SetupError(f"{self.path} was changed in the meantime; run setup again")
        try:
            data = text.encode("utf-8")
            self.path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self.path, data, mode=_ONLY_OWNER)
        except UnicodeEncodeError as error:
            reason = "a server's definition has half of a surrogate pair"
            raise SetupError(f"{self.path} cannot be written: {reason}") from error
        except OSError as error:
            raise SetupError(f"{self.path} cannot be written: {refusal(error)}") from error
        self._data, self._text, self._known = data, text, servers


def copied(entry: ServerEntry, home: Path) -> dict[str, Any]:
    """Return a client's definition of a server, adapted so that it means the same in our file.

    References to variables are kept, so that secrets stay where they are.

    Args:
        entry: The server.
        home: The folder in which the client starts the server.

    Raises:
        ServerError: The server depends on the folder that is open in the client.
    """
    if entry.folder is not None and entry.is_relative:
        home = entry.folder
    if found := next(filter(None, map(_OPEN_FOLDER.search, _texts(entry.definition))), None):
        raise ServerError(entry.name, f"{found[0]} depends on the folder open in the client")
    made: dict[str, Any] = {
        key: _with_defaults(value, entry) for key, value in entry.definition.items()
    }
    if entry.transport == "stdio":
        made["cwd"] = _full(str(made.get("cwd") or "."), home)
        if isinstance(file := made.get("envFile"), str):
            made["envFile"] = _full(file, home)
    return made


def handed_on(entries: Sequence[ServerEntry], client: Client) -> dict[str, str]:
    """Return the variables that servers refer to, written as the client's references."""
    needed: dict[str, str] = {}

    def note(entry: ServerEntry, text: str, reference: str) -> None:
        with suppress(ServerError):
            entry.variables().rewritten(
                text, lambda name: needed.setdefault(name, reference.format(name))
            )

    for entry in entries if client.reference else ():
        for text in _texts(entry.definition):
            note(entry, _INPUT.sub("", text), client.reference)
            for found in _INPUT.finditer(text) if client.has_inputs else ():
                note(entry, found[0], f"${{{{input:{found[1]}}}}}")
    return needed


def _with_defaults(value: object, entry: ServerEntry) -> object:
    """Add to references the defaults of VS Code's inputs, which are elsewhere in its file."""
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        return {key: _with_defaults(it, entry) for key, it in members.items()}
    if isinstance(value, list):
        return [_with_defaults(it, entry) for it in cast("list[object]", value)]
    if not isinstance(value, str):
        return value

    def with_default(found: re.Match[str]) -> str:
        if found[1] not in entry.inputs:
            return found[0]
        reference = entry.variables().rewritten(found[0], lambda _: None)
        return f"{reference[:-1]}:-{entry.inputs[found[1]]}}}"

    return _INPUT.sub(with_default, value)


def _full(path: str, home: Path) -> str:
    return path if path.startswith("${") else str(home / Path(path).expanduser())


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        members = cast("dict[str, object]", value)
        yield from (text for it in members.values() for text in _texts(it))
    elif isinstance(value, list):
        yield from (text for it in cast("list[object]", value) for text in _texts(it))
