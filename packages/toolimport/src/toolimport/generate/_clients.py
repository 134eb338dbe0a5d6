"""The `__init__.py` of a generated package, which says how to reach its server."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from toolimport.connect._addresses import Address, addresses
from toolimport.connect._secrets import NAMES_A_SECRET, looks_random, secret_parts
from toolimport.generate._modules import docstring

if TYPE_CHECKING:
    from toolimport.connect import ServerEntry

_OURS = """\
{about}from toolimport.runtime import ToolRunner

CLIENT = ToolRunner(
    server_name={server},
    servers_file={file},
)
"""
_MCPYGENS = """\
{about}import os
from mcpygen.tool_exec.client import ToolRunner

CLIENT = ToolRunner(
    server_name={server},
    server_params={parameters},
    host=os.environ.get("TOOL_SERVER_HOST", "localhost"),
    port=int(os.environ.get("TOOL_SERVER_PORT", "8900")),
)
"""
_QUERY = re.compile(r"([?&])([^=&#]+)=([^&#]+)")
_PATH = re.compile(r"(?<=[^/]/)[^/?#${}]+")
_REFERENCES_ONLY = re.compile(r"(?:\w+ +)?\$\{\w+\}")


def initial_for_pytools(entry: ServerEntry, about: str) -> str:
    """Return a client that reads the connection from the configuration, and copies none of it."""
    return _OURS.format(about=_about(about), server=repr(entry.name), file=repr(str(entry.file)))


def initial_for_mcpygen(entry: ServerEntry, about: str) -> tuple[str, tuple[str, ...]]:
    """Return a client for mcpygen's tool server, with references instead of secrets.

    Also return the variables that the tool server needs.
    """
    needed: dict[str, None] = {}
    rewriter = _Rewriter(entry, needed)
    parameters = rewriter.process() if entry.transport == "stdio" else rewriter.address()
    text = _MCPYGENS.format(
        about=_about(about), server=repr(entry.name), parameters=repr(parameters)
    )
    return text, tuple(needed)


class _Rewriter:
    """Rewrites the parameters of one server, and collects the variables that they need."""

    def __init__(self, entry: ServerEntry, needed: dict[str, None]) -> None:
        self._entry = entry
        self._needed = needed
        self._variables = entry.variables()
        self._prefix = re.sub(r"\W+", "_", entry.name, flags=re.ASCII).strip("_").upper()

    def process(self) -> dict[str, Any]:
        definition, keep = self._entry.definition, self._kept
        parameters: dict[str, Any] = {
            "command": keep(str(definition.get("command"))),
            "args": self._arguments(),
        }
        of_file = self._entry.file_variables(self._variables)
        env = {name: self._reference(name) for name in of_file}
        env |= {name: self._secret(name, text) for name, text in self._entry.mapping("env").items()}
        if env:
            parameters["env"] = env
        if cwd := definition.get("cwd"):
            parameters["cwd"] = keep(str(cwd))
        return parameters

    def address(self) -> dict[str, Any]:
        parameters: dict[str, Any] = {
            "url": self._address(self._entry.address),
            "type": "sse" if self._entry.transport == "sse" else "streamable_http",
        }
        if headers := self._entry.mapping("headers"):
            parameters["headers"] = {
                name: self._secret(f"{self._prefix}_{name}", text) for name, text in headers.items()
            }
        return parameters

    def _kept(self, text: str) -> str:
        return self._variables.rewritten(text, lambda name: self._needed.setdefault(name))

    def _secret(self, name: str, text: str) -> str:
        """Return a value if it is a reference; otherwise, a new reference for it."""
        if _REFERENCES_ONLY.fullmatch(kept := self._kept_quietly(text)):
            return self._kept(kept)
        return self._reference(name)

    def _kept_quietly(self, text: str) -> str:
        return self._variables.rewritten(text, lambda _: None)

    def _reference(self, name: str) -> str:
        variable = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").upper()
        self._needed.setdefault(variable)
        return f"${{{variable}}}"

    def _arguments(self) -> list[str]:
        texts = self._entry.texts("args")
        secrets = {place: (start, name) for place, start, name in secret_parts(texts)}
        made: list[str] = []
        for place, text in enumerate(texts):
            if place in secrets:
                start, name = secrets[place]
                made.append(text[:start] + self._secret(f"{self._prefix}_{name}", text[start:]))
            else:
                made.append(self._address(text) if "://" in text else self._kept(text))
        return made

    def _address(self, text: str) -> str:
        return "".join(map(self._freed, addresses(self._kept(text))))

    def _freed(self, address: Address) -> str:
        parts = ("user", address.user), ("password", address.password)
        made = (self._secret(f"{self._prefix}_{name}", text) for name, text in parts if text)
        user = ":".join(made)
        after = _QUERY.sub(self._query_value, address.after)
        return address.before + user + _PATH.sub(self._path_part, after)

    def _path_part(self, found: re.Match[str]) -> str:
        return self._reference(f"{self._prefix}_path") if looks_random(found[0]) else found[0]

    def _query_value(self, found: re.Match[str]) -> str:
        start, name, value = found.groups()
        if value.startswith("${") or not NAMES_A_SECRET.search(name):
            return found[0]
        return f"{start}{name}={self._reference(f'{self._prefix}_{name}')}"


def _about(text: str) -> str:
    if not text.strip():
        return ""
    return docstring(text.strip()).replace("\n    ", "\n") + "\n\n"
