"""Reading servers from the configuration file of any common client."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from toolimport._files import read_regular_file
from toolimport.connect._inherited import inherited
from toolimport.connect._jsonc import read_json
from toolimport.connect._parameters import HttpParameters, Parameters, StdioParameters
from toolimport.connect._secrets import Redactor, secret_parts
from toolimport.connect._variables import Variables, workspace_of
from toolimport.errors import ServerError, ServersFileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic import JsonValue


SECTIONS = ("mcpServers", "servers", "mcp.servers", "ptc_servers")
"""The keys for servers: of Claude and Cursor; of VS Code, in both its files; of freeact."""

_ADDRESSES = ("url", "httpUrl", "serverUrl")
_TRANSPORTS: Mapping[str, Literal["stdio", "http", "sse"]] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "streamablehttp": "http",
    "remote": "http",
    "sse": "sse",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEntry:
    """A server's entry in a file, with references not yet expanded.

    Attributes:
        name: Its name in the file.
        section: The key above it, one of `SECTIONS`; empty if names are at the top level.
        file: The full path of the file.
        disabled: Whether the file disables it.
        definition: Its definition in the file.
        inputs: The defaults of VS Code's inputs, by id.
    """

    name: str
    section: str
    file: Path
    disabled: bool = False
    definition: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    inputs: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def transport(self) -> Literal["stdio", "http", "sse"]:
        """Return the transport of the server; raise `ServerError` if the entry does not say."""
        named = self.definition.get("type") or self.definition.get("transport")
        if named is not None:
            key = str(named).lower().replace("-", "").replace("_", "")
            if key not in _TRANSPORTS:
                raise self._wrong("type", "must be stdio, http, streamable-http or sse")
            return _TRANSPORTS[key]
        if "command" in self.definition:
            return "stdio"
        address = self.address
        return "sse" if address.partition("?")[0].rstrip("/").endswith("/sse") else "http"

    @property
    def address(self) -> str:
        """Return the address as written in the file; raise `ServerError` if there is none."""
        for key in _ADDRESSES:
            if isinstance(address := self.definition.get(key), str) and address.strip():
                return address.strip()
        raise ServerError(self.name, "needs a 'command' to start, or a 'url' to connect to")

    def variables(self, environment: Mapping[str, str] | None = None) -> Variables:
        """Return the values of references in this entry."""
        return Variables(
            server=self.name,
            file=self.file,
            environment=os.environ if environment is None else environment,
            defaults=self.inputs,
        )

    def parameters(self, environment: Mapping[str, str] | None = None) -> Parameters:
        """Insert the values of variables, and look up the program.

        Raises:
            ServerError: The entry is incomplete, a variable is not set, or the program does not
                exist.
        """
        variables = self.variables(environment)
        if self.transport == "stdio":
            return self._stdio(variables)
        url = variables.expand(self.address)
        headers = self._expanded("headers", variables)
        if not url.startswith(("http://", "https://")):
            raise self._wrong("url", "must begin with http:// or https://")
        if not all(it.isascii() and it.isprintable() for it in (*headers, *headers.values())):
            raise self._wrong("headers", "must each be one line of ASCII")
        secrets = (*Redactor.of_address(url), *headers.items(), *variables.taken.items())
        return HttpParameters(
            url=url,
            headers=headers,
            transport="sse" if self.transport == "sse" else "http",
            redactor=Redactor(secrets),
        )

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings as in the file; raise `ServerError` for anything else."""
        value: JsonValue = self.definition.get(key) or []
        if not isinstance(value, list) or not all(_is_plain(it) for it in value):
            raise self._wrong(key, "must be a list of strings")
        return tuple(map(_plain, value))

    def mapping(self, key: str) -> dict[str, str]:
        """Return a mapping of strings as written in the file; null becomes an empty string."""
        value: JsonValue = self.definition.get(key) or {}
        if not isinstance(value, dict) or not all(_is_plain(it) for it in value.values()):
            raise self._wrong(key, "must be an object of strings")
        return {name: _plain(it) for name, it in value.items()}

    def file_variables(self, variables: Variables) -> dict[str, str]:
        """Return the variables in the entry's `envFile`, a key of VS Code."""
        named = self.definition.get("envFile")
        if named is None:
            return {}
        if not isinstance(named, str):
            raise self._wrong("envFile", "must be a path")
        from dotenv import dotenv_values

        file = workspace_of(self.file) / Path(variables.expand(named)).expanduser()
        if not file.is_file():
            raise ServerError(self.name, f"its 'envFile' {file} does not exist")
        try:
            text = read_regular_file(file).decode("utf-8")
            found = dotenv_values(stream=StringIO(text), interpolate=False)
        except (OSError, UnicodeDecodeError):
            raise ServerError(self.name, f"its 'envFile' {file} cannot be read") from None
        return {name: value for name, value in found.items() if value is not None}

    def _stdio(self, variables: Variables) -> StdioParameters:
        command = self.definition.get("command")
        if not isinstance(command, str) or not command.strip():
            raise self._wrong("command", "must be the name or the path of a program")
        env = self.file_variables(variables) | self._expanded("env", variables)
        args = tuple(variables.expand(it) for it in self.texts("args"))
        cwd = self.definition.get("cwd") or "."
        if not isinstance(cwd, str):
            raise self._wrong("cwd", "must be a path")
        folder = workspace_of(self.file) / Path(variables.expand(cwd)).expanduser()
        program = variables.expand(command)
        others = inherited(variables.environment)
        in_addresses = (
            (f"{name} {kind}", secret)
            for name, value in (*_addresses(others), *(("argument", it) for it in args))
            if "://" in value
            for kind, secret in Redactor.of_address(value)
        )
        in_args = ((name, args[place][start:]) for place, start, name in secret_parts(args))
        redactor = Redactor((*in_args, *env.items(), *variables.taken.items(), *in_addresses))
        return StdioParameters.found(self.name, program, args, others | env, folder, redactor)

    def _expanded(self, key: str, variables: Variables) -> dict[str, str]:
        return {name: variables.expand(value) for name, value in self.mapping(key).items()}

    def _wrong(self, key: str, message: str) -> ServerError:
        return ServerError(self.name, f"{key!r} {message}")


def full_path(file: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a configuration."""
    # Not resolved, because the workspace may be the folder that contains the link.
    return Path(os.path.abspath(Path(file).expanduser()))  # noqa: PTH100


def read_servers(file: Path) -> tuple[ServerEntry, ...]:
    """Read the servers in a file, in its order.

    Raises:
        ServersFileError: It cannot be read, is not valid JSON, or has no servers in a known form.
    """
    file = full_path(file)
    return servers_in(read_json(file), file)


def servers_in(content: JsonValue, file: Path) -> tuple[ServerEntry, ...]:
    """Return the servers in the content of a file, in its order.

    Raises:
        ServersFileError: It has no servers in a known form.
    """
    if not isinstance(content, dict):
        raise ServersFileError(file, "must be an object with 'mcpServers'")
    entries: dict[str, ServerEntry] = {}
    for section, servers in _sections(file, content):
        defaults = _inputs(content.get("mcp", content) if section == "mcp.servers" else content)
        for name, definition in servers.items():
            entry = _entry(file, section, name, definition, defaults)
            known = entries.setdefault(name, entry)
            if known.definition != entry.definition:
                raise ServersFileError(
                    file,
                    f"has two servers called {name!r}, in {known.section!r} and in {section!r}; "
                    "rename one",
                )
    return tuple(entries.values())


def _sections(
    file: Path, content: dict[str, JsonValue]
) -> Iterator[tuple[str, dict[str, JsonValue]]]:
    found = False
    for section in SECTIONS:
        value: JsonValue = content
        for key in section.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if value is None:
            continue
        if not isinstance(value, dict):
            raise ServersFileError(
                file, f"{section!r} must be an object that maps names to servers"
            )
        found = True
        yield section, value
    if found:
        return
    if content and all(
        isinstance(it, dict) and {"command", *_ADDRESSES} & it.keys() for it in content.values()
    ):
        yield "", content
        return
    raise ServersFileError(
        file,
        "names no servers: looked for 'mcpServers' (Claude, Cursor), 'servers' (VS Code) and "
        "'ptc_servers' (freeact)",
    )


def _entry(
    file: Path, section: str, name: str, definition: JsonValue, inputs: Mapping[str, str]
) -> ServerEntry:
    if not isinstance(definition, dict):
        raise ServersFileError(file, f"the server {name!r} must be an object")
    return ServerEntry(
        name=name,
        section=section,
        file=file,
        disabled=definition.get("disabled") is True or definition.get("enabled") is False,
        definition=definition,
        inputs=inputs,
    )


def _inputs(content: JsonValue) -> dict[str, str]:
    listed = content.get("inputs") if isinstance(content, dict) else None
    return {
        str(it["id"]): str(it["default"])
        for it in (listed if isinstance(listed, list) else [])
        if isinstance(it, dict) and "id" in it and it.get("default") is not None
    }


def _addresses(variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield variables that may be addresses; a proxy's address may have no scheme."""
    for name, value in variables.items():
        yield name, value if "://" in value or "@" not in value else f"://{value}"


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
