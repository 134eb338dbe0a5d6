"""Reading servers from the configuration file of any common client."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from io import StringIO
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from toolimport._errors import ServerError, ServersFileError
from toolimport.clients._secrets import NAMES_A_SECRET, Redactor, secret_parts
from toolimport.clients._shapes import (
    as_list,
    as_object,
    disabled_names,
    flattened,
    is_disabled,
    is_server,
    normalized,
    reason_to_skip,
    replaces_dollars,
    rules_in,
    sections_in,
    transport_of,
    value_at,
)
from toolimport.clients._texts import read_file
from toolimport.system import read_regular_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pydantic import JsonValue

# In addition to those that the library passes on (PATH, HOME and the like): network settings, and
# where `uvx` and `npx` get packages. Nothing else, because servers are not trusted. Their addresses
# may contain passwords, which are passed on, and never shown.
_NEEDED = re.compile(
    r"(?:https?|all|no)_proxy"
    r"|ssl_cert_(?:file|dir)|requests_ca_bundle|curl_ca_bundle|node_extra_ca_certs|git_ssl_cainfo"
    r"|uv_.+|pip_.+|npm_config_\w+|xdg_.+|lang|language|lc_.+|tz|tmpdir|virtual_env|pyenv_.+|nvm_.+",
    re.IGNORECASE,
)

_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_NESTED = re.compile(r"\$\{[^{}]*\$\{")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SEPARATORS = re.compile(r"[^A-Za-z0-9]+")
_PLACES: dict[str, Callable[[Path], str]] = {
    "workspaceFolder": str,
    "workspaceRoot": str,
    "workspaceFolderBasename": lambda workspace: workspace.name,
    "userHome": lambda _: str(Path.home()),
    "cwd": lambda _: str(Path.cwd()),
    "pathSeparator": lambda _: os.sep,
    "/": lambda _: os.sep,
}
_LONE_DOLLAR = re.compile(r"(?:^|(?<=[\s=:/@]))\$([A-Z_][A-Z0-9_]*)")
_NOTHING_FOUND = (
    "names no servers; expected 'mcpServers' (Claude, Cursor, Gemini CLI and most others), "
    "'servers' (VS Code), 'context_servers' (Zed), 'mcp' (opencode, Crush), 'mcp_servers' (Codex), "
    "'extensions' (Goose), 'amp.mcpServers' or 'ptc_servers' (freeact)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioParameters:
    """The program, arguments, environment and folder of a server; `redactor` knows the secrets."""

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: Path
    redactor: Redactor = field(repr=False, compare=False)


def _program(command: str, env: Mapping[str, str], cwd: Path) -> str | None:
    """Return the path of a program by its name or path; None if there is none."""
    if "\0" in command:
        return None
    if os.sep in command or (os.altsep and os.altsep in command):
        return shutil.which(str(cwd / Path(command).expanduser()))
    return shutil.which(command, path=env.get("PATH") or os.environ.get("PATH"))


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpParameters:
    """The address and headers of a server; `redactor` knows the secrets among them."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    transport: Literal["http", "sse"]
    redactor: Redactor = field(repr=False, compare=False)


Parameters = StdioParameters | HttpParameters


@dataclass(kw_only=True)
class Variables:
    """Expands the references in one server's entry; `defaults` are those of VS Code's inputs.

    Attributes:
        taken: The values inserted from the environment, which may be secrets, by name.
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
            return f"PYTOOLS_INPUT_{_SEPARATORS.sub('_', rest).strip('_').upper()}"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEntry:
    """A server's entry in a file, with references not yet expanded.

    Attributes:
        name: Its name in the file.
        section: The key above it, one of `SECTIONS`; empty if names are at the top level.
        file: The full path of the file.
        disabled: Whether the file disables it.
        skipped: The reason why only the client can start it, or empty.
        definition: Its definition, normalized: with the keys of the most common shape.
        inputs: The defaults of VS Code's inputs, by id.
        folder: Its project, in a file with several projects, or None.
        rules: Patterns in the file that switch tools on and off; the last match counts.
    """

    name: str
    section: str
    file: Path
    disabled: bool = False
    skipped: str = ""
    definition: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    inputs: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    folder: Path | None = None
    rules: tuple[tuple[str, bool], ...] = ()

    @property
    def transport(self) -> Literal["stdio", "http", "sse"]:
        """Return the transport of the server; raise `ServerError` if the entry does not say."""
        if (named := self.definition.get("type")) is not None:
            is_known, transport = transport_of(named)
            if not is_known:
                raise self._wrong("type", "must be stdio, http, streamable-http or sse")
            if transport is not None:
                return transport
        if "command" in self.definition:
            return "stdio"
        address = self.address
        return "sse" if address.partition("?")[0].rstrip("/").endswith("/sse") else "http"

    @property
    def address(self) -> str:
        """Return the address as written in the file; raise `ServerError` if there is none."""
        if isinstance(address := self.definition.get("url"), str) and address.strip():
            return address.strip()
        raise ServerError(self.name, "needs a 'command' to start, or a 'url' to connect to")

    @property
    def workspace(self) -> Path:
        """Return the folder that relative paths in the entry start from."""
        if self.folder is not None and self.folder.is_dir():
            return self.folder
        folder = self.file.parent
        # For `.vscode/mcp.json`, it is the folder above.
        return folder.parent if folder.name.startswith(".") else folder

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return warnings about parts of the entry that probably mean something else."""
        if replaces_dollars(self.file):
            return ()
        named = [("'url'", self.definition.get("url"))]
        for key in ("env", "headers"):
            members = as_object(self.definition.get(key))
            named += [(f"'{key}' {name}", it) for name, it in members.items()]
        for it in map(str, as_list(self.definition.get("args"))):
            # Within a longer argument, a shell may replace it.
            named += [("'args'", it)] if it.startswith("$") and " " not in it else []
        unused = "'headersHelper' is not run, so the headers that it prints are not sent"
        return (unused,) * ("headersHelper" in self.definition) + tuple(
            f"{found[0]} in {place} is passed on as it is written; to insert the variable, write "
            f"${{{found[1]}}}"
            for place, value in named
            for found in _LONE_DOLLAR.finditer(str(value))
        )

    @property
    def is_relative(self) -> bool:
        """Whether the server seems to depend on the folder that it is started in."""
        texts = (self.definition.get("command"), *as_list(self.definition.get("args")))
        return any(
            text.startswith(".") or "${workspace" in text or os.path.exists(self.workspace / text)  # noqa: PTH110 - any text
            for text in map(str, texts)
            if text and not Path(text).is_absolute()
        )

    def is_duplicate_of(self, other: ServerEntry) -> bool:
        """Return whether another project has the same server, wherever it is started."""
        one, two = ((it.definition, it.disabled, it.skipped) for it in (self, other))
        is_anywhere = not (self.is_relative or other.is_relative)
        return one == two and (is_anywhere or self.workspace == other.workspace)

    def starts_same(self, other: ServerEntry) -> bool:
        """Return whether another entry starts the same server, with the same tools switched on."""
        tools = [
            (it.definition.get("includeTools"), it.definition.get("excludeTools"), it.rules)
            for it in (self, other)
        ]
        if tools[0] != tools[1]:
            return False
        try:
            one, two = self.parameters(), other.parameters()
        except ServerError:
            # Without the values of variables, only the references can be compared.
            texts = [json.dumps(it.definition, sort_keys=True) for it in (self, other)]
            return texts[0].replace("${env:", "${") == texts[1].replace("${env:", "${")
        is_anywhere = not any("cwd" in it.definition or it.is_relative for it in (self, other))
        if is_anywhere and isinstance(one, StdioParameters) and isinstance(two, StdioParameters):
            two = replace(two, cwd=one.cwd)
        return one == two

    def takes(self, tool: str) -> bool:
        """Return whether the file leaves a tool switched on."""
        definition = self.definition
        if "includeTools" in definition and not _is_one(tool, definition["includeTools"]):
            return False
        if _is_one(tool, definition.get("excludeTools", ())):
            return False
        name = re.sub(r"[^\w-]", "_", self.name)
        names = [f"{before}{tool}" for before in (f"{name}_", f"{name}__", f"mcp__{name}__")]
        choices = [
            on for pattern, on in self.rules if any(fnmatchcase(it, pattern) for it in names)
        ]
        return not choices or choices[-1]

    def variables(self, environment: Mapping[str, str] | None = None) -> Variables:
        """Return the values of references in this entry."""
        return Variables(
            server=self.name,
            workspace=self.workspace,
            environment=os.environ if environment is None else environment,
            defaults=self.inputs,
        )

    def parameters(self, environment: Mapping[str, str] | None = None) -> Parameters:
        """Insert the values of variables, and look up the program.

        `ServerError` is raised if something is missing.
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
        with suppress(TypeError):
            if isinstance(value, list):
                return tuple(map(_plain, value))
        raise self._wrong(key, "must be a list of strings")

    def mapping(self, key: str) -> dict[str, str]:
        """Return a mapping of strings as written in the file; null becomes an empty string."""
        value: JsonValue = self.definition.get(key) or {}
        with suppress(TypeError):
            if isinstance(value, dict):
                return {name: _plain(it) for name, it in value.items()}
        raise self._wrong(key, "must be an object of strings")

    def file_variables(self, variables: Variables) -> dict[str, str]:
        """Return the variables in the entry's `envFile`, a key of VS Code."""
        named = self.definition.get("envFile")
        if named is None:
            return {}
        if not isinstance(named, str):
            raise self._wrong("envFile", "must be a path")
        from dotenv import dotenv_values

        file = self.workspace / Path(variables.expand(named)).expanduser()
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
        folder = self.workspace / Path(variables.expand(cwd)).expanduser()
        name = variables.expand(command)
        others = {
            name: value
            for name, value in variables.environment.items()
            if _NEEDED.fullmatch(name) and not NAMES_A_SECRET.search(name)
        }
        program = _program(name, others | env, folder)
        if program is None:
            # Several clients accept a whole command line.
            words = [name]
            with suppress(ValueError):
                words = shlex.split(name, posix=os.sep == "/") or words
            name, *before = map(variables.expand, words)
            args = (*before, *args)
            program = _program(name, others | env, folder)
        # A proxy's address may have no scheme.
        named = (
            (name, value if "://" in value or "@" not in value else f"://{value}")
            for name, value in others.items()
        )
        in_addresses = (
            (f"{name} {kind}", secret)
            for name, value in (*named, *(("argument", it) for it in args))
            if "://" in value
            for kind, secret in Redactor.of_address(value)
        )
        in_args = ((name, args[place][start:]) for place, start, name in secret_parts(args))
        redactor = Redactor((*in_args, *env.items(), *variables.taken.items(), *in_addresses))
        env = others | env
        if not folder.is_dir():
            raise ServerError(self.name, f"its folder {folder} ('cwd') does not exist")
        if any("\0" in it for it in (name, *args, *env, *env.values())):
            raise ServerError(self.name, "its command, args or env contain a NUL character")
        if program is None:
            raise ServerError(
                self.name,
                f"the command {redactor.text(name)!r} is not found; install it, or give its full "
                "path",
            )
        # Not resolved: a virtual environment's interpreter is a link, which it locates itself by.
        program = os.path.abspath(program)  # noqa: PTH100
        return StdioParameters(command=program, args=args, env=env, cwd=folder, redactor=redactor)

    def _expanded(self, key: str, variables: Variables) -> dict[str, str]:
        return {name: variables.expand(value) for name, value in self.mapping(key).items()}

    def _wrong(self, key: str, message: str) -> ServerError:
        return ServerError(self.name, f"{key!r} {message}")


def full_path(file: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a configuration."""
    # Not resolved, because the workspace may be the folder that contains the link.
    return Path(os.path.abspath(Path(file).expanduser()))  # noqa: PTH100


def read_servers(file: Path) -> tuple[ServerEntry, ...]:
    """Read the servers in a file, in its order; raise `ServersFileError` if that fails."""
    file = full_path(file)
    return servers_in(read_file(file), file)


def servers_in(
    content: JsonValue, file: Path, folder: Path | None = None
) -> tuple[ServerEntry, ...]:
    """Return the servers in the content of a file, in its order.

    Those of projects come after those of all projects; if a name is taken, the name of the
    project's folder is added to it. `folder` is the project that all of them belong to.
    """
    if not isinstance(content, dict):
        raise ServersFileError(file, "must be an object with 'mcpServers'")
    sections = [*sections_in(content)]
    of_projects = [*_projects(content)]
    if not sections and not of_projects:
        if not content or not all(map(is_server, content.values())):
            raise ServersFileError(file, _NOTHING_FOUND)
        sections = [("", content)]
    entries: dict[str, ServerEntry] = {}
    for section, servers in sections:
        for entry in _entries(content, section, servers, file, folder):
            known = entries.setdefault(entry.name, entry)
            if known.definition != entry.definition:
                raise ServersFileError(
                    file,
                    f"has two servers called {entry.name!r}, in {known.section!r} and in "
                    f"{section!r}; rename one",
                )
    for path, project in of_projects:
        for entry in _entries(project, "mcpServers", project["mcpServers"], file, path):
            if not any(map(entry.is_duplicate_of, entries.values())):
                name = entry.name
                numbered = (f"{name} ({path.name} {it})" for it in count(2))
                names = chain((name, f"{name} ({path.name})"), numbered)
                name = next(it for it in names if it not in entries)
                entries[name] = replace(entry, name=name)
    return tuple(entries.values())


def _projects(content: Mapping[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield Claude Code's projects that have servers, by their folder."""
    for path, project in as_object(content.get("projects")).items():
        if isinstance(as_object(project).get("mcpServers"), dict):
            yield Path(path), project


def _entries(
    content: Mapping[str, Any], section: str, servers: object, file: Path, folder: Path | None
) -> Iterator[ServerEntry]:
    # mcpproxy and Continue list them.
    listed = (
        (str(as_object(it).get("name") or f"server-{number}"), it)
        for number, it in enumerate(as_list(servers), 1)
    )
    named = [*as_object(servers).items(), *listed]
    if not isinstance(servers, dict | list):
        raise ServersFileError(file, f"{section!r} must be an object that maps names to servers")
    off = disabled_names(content, [name for name, _ in named])
    asked = as_list(value_at(content, "mcp.inputs") or value_at(content, "inputs"))
    inputs = {
        str(it["id"]): str(it["default"])
        for it in map(as_object, asked)
        if "id" in it and it.get("default") is not None
    }
    rules = tuple(rules_in(content))
    for name, definition in named:
        flat = flattened(as_object(definition))
        if not isinstance(definition, dict | None):
            raise ServersFileError(file, f"the server {name!r} must be an object")
        yield ServerEntry(
            name=name,
            section=section,
            file=file,
            disabled=is_disabled(flat) or name in off,
            skipped="it is null" if definition is None else reason_to_skip(flat, section, file),
            definition=normalized(flat, section, file),
            inputs=inputs,
            folder=folder,
            rules=rules,
        )


def _is_one(tool: str, patterns: Iterable[object]) -> bool:
    # Gemini CLI allows `tool(arguments)`.
    return any(fnmatchcase(tool, str(it).partition("(")[0]) for it in patterns)


def _plain(value: object) -> str:
    if isinstance(value, dict | list):
        raise TypeError
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
