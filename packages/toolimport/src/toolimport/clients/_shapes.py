"""The shapes of clients' configuration files, as tables.

Clients write the same things under different keys. Each definition of a server is normalized: it
gets the keys of the most common shape, and irrelevant keys are dropped, so that the same server
has the same definition in every client.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

SECTIONS = (
    "mcpServers",  # Claude, Cursor, Gemini CLI, Windsurf, Cline, …; a list in mcpproxy and Continue
    "servers",  # VS Code
    "mcp.servers",  # VS Code's settings
    "amp.mcpServers",
    "context_servers",  # Zed
    "mcp",  # opencode and Crush
    "mcp_servers",  # Codex
    "mcp-servers",
    "agent.mcp_servers",
    "extensions",  # Goose
    "experimental.modelContextProtocolServers",  # Continue's config.json
    "ptc_servers",  # freeact
    "ptc-servers",
    "agent.ptc_servers",
)
"""The keys that servers are under. A dotted key is nested, or literally a key with dots."""

# Other things may be under these keys too.
_SHARED = frozenset({"mcp", "extensions"})
# freeact calls these servers itself; tools are generated from the others.
_NOT_WITH_PTC = frozenset({"mcp_servers", "mcp-servers", "agent.mcp_servers"})

_KEYS: Mapping[str, tuple[str, ...]] = {
    "command": ("command", "cmd"),
    "env": ("env", "environment", "envs"),
    "cwd": ("cwd", "working_dir", "working_directory", "workingDirectory"),
    "url": ("httpUrl", "url", "serverUrl", "uri", "baseUrl"),
    "headers": ("headers", "http_headers", "httpHeaders"),
    "type": ("type", "transport", "protocol", "transportType"),
}
_NESTED = ("transport", "config", "requestOptions", "tool_configuration")
_INCLUDING = ("includeTools", "include_tools", "enabled_tools", "enabledTools", "allowedTools")
_INCLUDING_IF_ANY = ("allowed_tools", "available_tools", "tools")
_EXCLUDING = ("excludeTools", "exclude_tools", "disabledTools", "disabled_tools", "excludedTools")
_ON, _OFF = ("enabled", "isActive", "active"), ("disabled", "quarantined")
# Some files have texts or numbers here; what may be switched off stays off.
_YES, _NO = {"true", "1", "yes", "on"}, {"false", "0", "no", "off"}
_TRANSPORTS: Mapping[str, Literal["stdio", "http", "sse"] | None] = {
    "stdio": "stdio",
    "command": "stdio",
    "http": "http",
    "streamablehttp": "http",
    "streamable": "http",
    "sse": "sse",
    # These follow from the rest of the definition.
    **dict.fromkeys(("local", "remote", "auto")),
}
_BUILT_IN = frozenset({"builtin", "platform", "frontend", "inlinepython", "sdk"})
# Keys that do not concern the connection.
_IGNORED = frozenset(
    {
        *("name", "alwaysAllow", "autoApprove", "trust", "description", "source", "bundled"),
        *("alwaysLoad", "gallery", "version", "created", "updated"),
        *(*_ON, *_OFF, *_INCLUDING, *_INCLUDING_IF_ANY, *_EXCLUDING, *_NESTED),
        *(key for keys in _KEYS.values() for key in keys),
    }
)

NAME = "pytools"
"""The name of our own entry."""

_OWN_COMMAND, _OWN_MODULE = "pytools-hybrid", "pytools_hybrid"
_DOLLAR = re.compile(r"\$(?:\{(?=[^{}]*\})|([A-Za-z_]\w*))")
_BRACES = re.compile(r"\{(env|file):([^{}]+)\}")
_SECRETS = re.compile(r"\$\{\{\s*(?:secrets|inputs|env)\.(\w+)\s*\}\}")


def as_object(value: object) -> dict[str, Any]:
    """Return a JSON value if it is an object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """Return a JSON value if it is a list, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def sections_in(content: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield each key that has servers, and its value, which may be of any type."""
    found: dict[str, object] = {}
    for section in SECTIONS:
        value = value_at(content, section)
        if section in _SHARED:
            members = {name: it for name, it in as_object(value).items() if _is_entry(it)}
            # Goose's recipes list them.
            value = members or [it for it in as_list(value) if _is_entry(it)] or None
        if value is not None:
            found[section] = value
    if any("ptc" in section for section in found):
        found = {section: it for section, it in found.items() if section not in _NOT_WITH_PTC}
    yield from found.items()


def value_at(content: object, path: str) -> object:
    """Return the value at a dotted key, nested or literal; None if there is none."""
    members = as_object(content)
    if path in members:
        return members[path]
    for place, char in enumerate(path):
        if char == "." and path[:place] in members:
            found = value_at(members[path[:place]], path[place + 1 :])
            if found is not None:
                return found
    return None


def is_server(definition: object) -> bool:
    """Return whether something looks like the definition of a server."""
    keys = {*_KEYS["command"], *_KEYS["url"], *_KEYS["type"]}
    return not keys.isdisjoint(as_object(definition))


def _has_connection(definition: Mapping[str, Any]) -> bool:
    return any(key in definition for key in (*_KEYS["command"], *_KEYS["url"]))


def _is_entry(value: object) -> bool:
    # opencode can switch a server on or off that another of its files defines.
    return is_server(value) or as_object(value).keys() == {"enabled"}


def transport_of(named: object) -> tuple[bool, Literal["stdio", "http", "sse"] | None]:
    """Return whether a transport is known, and which it is; None if it follows from the rest."""
    key = re.sub(r"[-_ ]", "", str(named)).lower()
    return key in _TRANSPORTS, _TRANSPORTS.get(key)


def flattened(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition without the objects that some clients nest parts of it in."""
    made = dict(definition)
    for key in _NESTED:
        # Elsewhere, 'config' is for the server itself.
        if (nested := as_object(made.get(key))) and (key != "config" or not _has_connection(made)):
            del made[key]
            made = {**nested, **made}
    if program := as_object(made.get("command")):
        made |= {key: program[key] for key in ("args", "env") if key in program}
        made["command"] = program.get("path")
    return made


def is_disabled(definition: Mapping[str, Any]) -> bool:
    """Return whether a client would not start a server."""
    return any(
        str(definition.get(key)).lower() in words
        for keys, words in ((_ON, _NO), (_OFF, _YES))
        for key in keys
    )


def reason_to_skip(definition: Mapping[str, Any], section: str, file: Path) -> str:
    """Return the reason why only the client can start a server, or an empty string."""
    kind = re.sub(r"[-_ ]", "", str(definition.get("type"))).lower()
    if kind in _BUILT_IN:
        return f"the client provides it itself (its type is {definition['type']})"
    if not _has_connection(definition):
        if section == "context_servers" or definition.get("source") == "extension":
            return "an extension of the client provides it"
        if "uses" in definition:
            return "it is defined in another file ('uses')"
    if _is_crush(file) and any("$(" in text for text in texts_in(definition)):
        return "its definition contains the output of a command, $(…), which is not run here"
    return ""


def normalized(definition: Mapping[str, Any], section: str, file: Path) -> dict[str, Any]:
    """Return a flattened definition with the keys and references of the most common shape."""
    made = {key: value for key, value in definition.items() if key not in _IGNORED}
    for key, names in _KEYS.items():
        values = [definition[name] for name in names if not _is_empty(definition.get(name))]
        if values:
            made[key] = values[0]
    if words := as_list(made.get("command")):
        made |= {"command": words[0], "args": [*words[1:], *as_list(made.get("args"))]}
    # Codex and Goose name variables instead of referring to them.
    headers: dict[str, Any] = {}
    if isinstance(name := made.pop("bearer_token_env_var", None), str):
        headers["Authorization"] = f"Bearer ${{{name}}}"
    for key, name in as_object(made.pop("env_http_headers", None)).items():
        headers[key] = f"${{{name}}}"
    env: dict[str, Any] = {}
    for key in ("env_vars", "env_keys"):
        for it in as_list(made.pop(key, None)):
            env[str(as_object(it).get("name", it))] = f"${{{as_object(it).get('name', it)}:-}}"
    for key, added in (("headers", headers), ("env", env)):
        if added:
            made[key] = {**added, **as_object(made.get(key))}
    if "httpUrl" in definition:
        made.setdefault("type", "http")
    # A transport that follows from the rest is dropped, and what is empty.
    is_known, transport = transport_of(made.get("type"))
    implied = "stdio" if "command" in made else "http"
    is_event_stream = str(made.get("url")).partition("?")[0].rstrip("/").endswith("/sse")
    if is_known and (transport is None or (transport == implied and not is_event_stream)):
        del made["type"]
    for key in [key for key, value in made.items() if _is_empty(value)]:
        del made[key]
    listed = [key for key in _INCLUDING if isinstance(definition.get(key), list | str)]
    listed += [key for key in _INCLUDING_IF_ANY if as_list(definition.get(key))]
    if listed:
        made["includeTools"] = _names(definition[listed[0]])
    excluded = [it for key in _EXCLUDING for it in _names(definition.get(key))]
    for name, choice in as_object(definition.get("tools")).items():
        if choice is False or is_disabled(as_object(choice)):
            excluded.append(name)
    if excluded:
        made["excludeTools"] = list(dict.fromkeys(map(str, excluded)))
    return with_texts(made, _replacement(section, file))


def _names(value: object) -> list[Any]:
    """Return a list of names, which may also be a text with commas."""
    return re.findall(r"[^\s,]+", value) if isinstance(value, str) else as_list(value)


def _is_empty(value: object) -> bool:
    return value is None or value in ("", [], {})


def with_texts(value: Any, change: Callable[[str], str]) -> Any:  # noqa: ANN401
    """Change all texts in a JSON value."""
    if isinstance(value, str):
        return change(value)
    if members := as_object(value):
        return {key: with_texts(it, change) for key, it in members.items()}
    if items := as_list(value):
        return [with_texts(it, change) for it in items]
    return value


def _replacement(section: str, file: Path) -> Callable[[str], str]:
    """Return what rewrites a client's references as `${NAME}`, `${NAME:-text}` or `${file:…}`."""
    if _is_crush(file):
        return lambda text: _DOLLAR.sub(lambda at: f"${{{at[1]}}}" if at[1] else at[0], text)
    if replaces_dollars(file):
        # Gemini CLI leaves a variable that is not set as it is written.
        return lambda text: _DOLLAR.sub(
            lambda at: f"${{{at[1]}:-${at[1]}}}" if at[1] else at[0], text
        )
    if section == "mcp":

        def braces(at: re.Match[str]) -> str:
            if at[1] == "env":
                return f"${{{at[2].strip()}}}"
            return f"${{file:{file.parent / Path(at[2].strip()).expanduser()}}}"

        return lambda text: _BRACES.sub(braces, text)
    if file.suffix in {".yaml", ".yml"}:
        return lambda text: _SECRETS.sub(r"${\1}", text)
    return lambda text: text


def replaces_dollars(file: Path) -> bool:
    """Return whether the client of a file replaces `$NAME` with the variable."""
    is_gemini = file.name == "gemini-extension.json"
    return is_gemini or file.parent.name in {".gemini", ".qwen"} or _is_crush(file)


def _is_crush(file: Path) -> bool:
    return file.name.lstrip(".") == "crush.json"


def rules_in(content: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield patterns of tools of all servers, and whether they are on; the last match counts."""
    for key in ("amp.tools.disable", "tools.exclude", "excludeTools"):
        yield from ((str(it), False) for it in as_list(value_at(content, key)))
    for key in ("tools", "permission"):
        for pattern, choice in as_object(value_at(content, key)).items():
            if isinstance(choice, bool) or choice in ("allow", "ask", "deny"):
                yield pattern, choice not in (False, "deny")


def disabled_names(content: Mapping[str, Any], names: Iterable[str]) -> set[str]:
    """Return the servers that a list elsewhere in the file switches off."""
    off: set[str] = set()
    for key in ("disabledMcpServers", "mcp.excluded", "excludeMCPServers"):
        off |= set(map(str, as_list(value_at(content, key))))
    for key in ("mcp.allowed", "allowMCPServers"):
        if (allowed := value_at(content, key)) is not None:
            off |= {*names}.difference(map(str, as_list(allowed)))
    return off


def texts_in(value: object) -> Iterator[str]:
    """Yield all texts in a JSON value."""
    if isinstance(value, str):
        yield value
    for it in (*as_object(value).values(), *as_list(value)):
        yield from texts_in(it)


def is_ours(name: str, definition: object) -> bool:
    """Return whether an entry starts our own server, in any spelling."""
    entry = as_object(definition)
    command, args = _base(entry.get("command")), [*map(str, as_list(entry.get("args")))]
    if command == _OWN_COMMAND or (name == NAME and "url" in entry):
        return True
    return any(
        (first == "-m" and second.partition(".")[0] == _OWN_MODULE)
        or (_base(first) == _OWN_COMMAND and second == "serve")
        for first, second in pairwise(args)
    )


def merged(entry: dict[str, Any], existing: Mapping[str, Any]) -> dict[str, Any]:
    """Return our own entry with the user's additions to an existing one."""
    start = entry["args"].index("serve") + 1
    before = [*map(str, as_list(existing.get("args")))]
    theirs = before[before.index("serve") + 1 :] if "serve" in before else []
    options, known = entry["args"][start:], [*pairwise(theirs)]
    pairs = zip(options[::2], options[1::2], strict=True)
    added = [it for pair in pairs if pair not in known for it in pair]
    made = {**existing, **entry, "args": [*entry["args"][:start], *added, *theirs]}
    env: dict[str, Any] = {**entry.get("env", {}), **(existing.get("env") or {})}
    if env:
        made["env"] = env
    return made


def _base(program: object) -> str:
    # A file may have Windows paths on any system.
    return str(program).replace("\\", "/").rpartition("/")[2].removesuffix(".exe")
