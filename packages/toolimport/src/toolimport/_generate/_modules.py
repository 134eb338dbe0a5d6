"""The source of a generated package: a module for each tool."""

from __future__ import annotations

import json
import keyword
import re
import unicodedata
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from toolimport.clients._secrets import NAMES_A_SECRET, Redactor, secret_parts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from toolimport._generate._models import Models
    from toolimport._imports import Runtime
    from toolimport.clients._servers import ServerEntry

_LONGEST = 100
# Reserved file names on Windows.
_TAKEN = re.compile(r"con|prn|aux|nul|com\d|lpt\d")
_DESCRIPTION = 50_000
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
# Perhaps a flag, and the rest.
_ARGUMENT = re.compile(r"^(-[\w-]+[= ])?(.+)$", re.DOTALL)
_IN_ADDRESSES = frozenset({"user", "password", "path"})
_REFERENCES_ONLY = re.compile(r"(?:\w+ +)?\$\{\w+\}")


def module_name(name: str) -> str:
    """Return a name that can be imported, and that no scan treats as private.

    As in mcpygen, it is in lower case, with `_` for invalid characters. A name that Python could
    still not import gets a prefix or a trailing underscore.
    """
    composed = unicodedata.normalize("NFKC", name).lower()
    # Compose again, because lower-casing may decompose some letters.
    composed = unicodedata.normalize("NFKC", composed)
    made = "".join(char if f"a{char}".isidentifier() else "_" for char in composed).lstrip("_")
    if len(made.encode("utf-8", "replace")) > _LONGEST:
        digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        made = made.encode()[: _LONGEST - 9].decode(errors="ignore")
        made = f"{made.rstrip('_')}_{digest}"
    if not made.isidentifier():
        made = f"tool_{made}" if made else "tool"
    if keyword.iskeyword(made) or _TAKEN.fullmatch(made):
        made += "_"
    return made


def distinct_names(
    names: Collection[str], known: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Assign each name a unique module name, independent of their order.

    If several names collide, the one that is spelled like its module keeps the name, otherwise the
    first alphabetically; the others are numbered. Earlier assignments, `known`, are kept.
    """
    wanted = {name: module_name(name) for name in names}
    ordered = sorted(wanted, key=lambda name: (name != wanted[name], name))
    taken = set(wanted.values())
    given = {
        name: made
        for name, made in (known or {}).items()
        if name in wanted and re.fullmatch(rf"{re.escape(wanted[name])}(_\d+)?", made)
    }
    used = set(given.values())
    for name in ordered:
        if name in given:
            continue
        made, number = wanted[name], 1
        while made in used or (number > 1 and made in taken):
            number += 1
            made = f"{wanted[name]}_{number}"
        used.add(made)
        given[name] = made
    return {name: given[name] for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool, as listed by its server; `annotations` are its hints, such as `readOnlyHint`."""

    name: str
    description: str = ""
    title: str = ""
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, bool] = field(default_factory=dict[str, bool])


def module_source(server: str, tool: Tool, models: Models, runtime: Runtime) -> str:
    """Return the source of a tool's module; raise `ValueError` if it would be invalid."""
    params, result = models.params, models.result
    description = tool.description.strip() or tool.title.strip() or f"{tool.name} of {server}"
    returns, sent, more, converted = "str", "params", "", "{}"
    if runtime == "mcpygen":
        sent = 'params.model_dump(mode="json", by_alias=True, exclude_unset=True)'
    if result:
        returns = "Result"
        if runtime == "mcpygen":
            converted = "Result.model_validate({})"
        else:
            more = ", result_model=Result"
    given = f"(tool_name={_quoted(tool.name)}, tool_args={sent}{more})"
    classes = f"{params}\n\n{result}\n\n" if result else f"{params}\n\n"
    source = (
        f"{classes}from . import CLIENT\n\n"
        f"def run(params: Params) -> {returns}:\n    {docstring(description)}\n"
        f"    return {converted.format(f'CLIENT.run_sync{given}')}\n\n"
        f"async def run_async(params: Params) -> {returns}:\n"
        '    """Call the tool without blocking the event loop."""\n'
        f"    return {converted.format(f'await CLIENT.run{given}')}\n"
    )
    try:
        compile(source, f"{module_name(tool.name)}.py", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None
    return source


def docstring(text: str) -> str:
    """Quote any text as the docstring of a function."""
    # Remove characters that cannot be stored first, because removing them later could join quotes.
    made = "".join(
        it for it in text[:_DESCRIPTION] if it != "\0" and not "\ud800" <= it <= "\udfff"
    )
    made = made.replace("\r\n", "\n").replace("\\", "\\\\").replace('"""', '""\\"')
    made = "".join(it if it in "\n\t" or it.isprintable() else repr(it)[1:-1] for it in made)
    first, *others = made.split("\n")
    lines = [first, *(f"    {line}" if line.strip() else "" for line in others)]
    return '"""' + "\n".join(lines) + '\n    """'


def _quoted(text: str) -> str:
    # JSON escapes an emoji as a surrogate pair, which Python would read as two characters.
    return json.dumps(text) if text.isascii() else ascii(text)


def initial_for_pytools(entry: ServerEntry, about: str) -> str:
    """Return a client that reads the connection from the configuration, and copies none of it."""
    return _OURS.format(about=_about(about), server=repr(entry.name), file=repr(str(entry.file)))


def initial_for_mcpygen(entry: ServerEntry, about: str) -> tuple[str, tuple[str, ...]]:
    """Return a client for mcpygen's tool server, with references instead of secrets.

    Also return the variables that the tool server needs.
    """
    needed: dict[str, None] = {}
    variables, definition = entry.variables(), entry.definition
    prefix = re.sub(r"\W+", "_", entry.name, flags=re.ASCII).strip("_").upper()

    def reference(name: str) -> str:
        variable = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").upper()
        needed.setdefault(variable)
        return f"${{{variable}}}"

    def kept(text: str) -> str:
        return variables.rewritten(text, needed.setdefault)

    def secret(name: str, text: str) -> str:
        """Return a value if it is a reference; otherwise, a new reference for it."""
        plain = variables.rewritten(text, lambda _: None)
        return kept(plain) if _REFERENCES_ONLY.fullmatch(plain) else reference(name)

    def address(text: str) -> str:
        found = Redactor.of_address(variables.rewritten(text, lambda _: None))
        is_secret = any(
            "${" not in value and (name in _IN_ADDRESSES or NAMES_A_SECRET.search(name))
            for name, value in found
        )
        return reference(f"{prefix}_url") if is_secret else kept(text)

    parameters: dict[str, Any]
    if entry.transport == "stdio":
        texts, args = entry.texts("args"), list[str]()
        secrets = {place: (start, name) for place, start, name in secret_parts(texts)}
        for place, text in enumerate(texts):
            if place in secrets:
                start, name = secrets[place]
                args.append(text[:start] + secret(f"{prefix}_{name}", text[start:]))
            elif "://" in text:
                args.append(_ARGUMENT.sub(lambda it: (it[1] or "") + address(it[2]), text))
            else:
                args.append(kept(text))
        parameters = {"command": kept(str(definition.get("command"))), "args": args}
        env = {name: reference(name) for name in entry.file_variables(variables)}
        env |= {name: secret(name, text) for name, text in entry.mapping("env").items()}
        parameters |= {"env": env} if env else {}
        if cwd := definition.get("cwd"):
            parameters["cwd"] = kept(str(cwd))
    else:
        kind = "sse" if entry.transport == "sse" else "streamable_http"
        parameters = {"url": address(entry.address), "type": kind}
        if headers := entry.mapping("headers"):
            parameters["headers"] = {
                name: secret(f"{prefix}_{name}", text) for name, text in headers.items()
            }
    server = repr(entry.name)
    text = _MCPYGENS.format(about=_about(about), server=server, parameters=repr(parameters))
    return text, tuple(needed)


def _about(text: str) -> str:
    if not text.strip():
        return ""
    return docstring(text.strip()).replace("\n    ", "\n") + "\n\n"
