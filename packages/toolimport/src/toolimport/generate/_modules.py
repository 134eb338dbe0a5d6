"""The source of a generated package: a module for each tool."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from toolimport.generate._models import Models, models_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Runtime = Literal["pytools", "mcpygen"]

_DESCRIPTION = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool, as listed by its server.

    Attributes:
        name: Its name on the server.
        description: Its description, or an empty string.
        title: A short name for people, or an empty string.
        input_schema: The schema of its arguments.
        output_schema: The schema of its result, if that is more than text.
        annotations: The server's hints on it, such as `readOnlyHint`.
    """

    name: str
    description: str = ""
    title: str = ""
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, bool] = field(default_factory=dict[str, bool])


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """The files of one server.

    Attributes:
        files: The content of each file by name.
        notes: What differs from the schema, by the tool's name.
        failed: Why tools could not be generated, by name.
    """

    files: Mapping[str, str]
    notes: Mapping[str, str]
    failed: Mapping[str, str]


def _models(tool: Tool) -> Models:
    return models_of(tool.input_schema, tool.output_schema)


def package_of(
    server: str,
    tools: Sequence[Tool],
    modules: Mapping[str, str],
    initial: str,
    runtime: Runtime,
    *,
    models: Callable[[Tool], Models] = _models,
    problem_of: Callable[[str], str] = lambda _source: "",
) -> Package:
    """Generate all files of a server.

    A tool is left out if `models` raises ValueError for it, or if `problem_of` returns why the
    source of its module cannot be used.
    """
    files = {"__init__.py": initial}
    notes: dict[str, str] = {}
    failed: dict[str, str] = {}
    for tool in tools:
        try:
            made = models(tool)
        except ValueError as error:
            failed[tool.name] = str(error)
            continue
        text = _module(server, tool, made.params, made.result, runtime)
        if problem := _syntax_problem(text, modules[tool.name]) or problem_of(text):
            failed[tool.name] = problem
            continue
        files[f"{modules[tool.name]}.py"] = text
        if made.notes:
            notes[tool.name] = "; ".join(made.notes)
    return Package(files=files, notes=notes, failed=failed)


def _module(server: str, tool: Tool, params: str, result: str, runtime: Runtime) -> str:
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
    models = f"{params}\n\n{result}\n\n" if result else f"{params}\n\n"
    return (
        f"{models}from . import CLIENT\n\n"
        f"def run(params: Params) -> {returns}:\n    {docstring(description)}\n"
        f"    return {converted.format(f'CLIENT.run_sync{given}')}\n\n"
        f"async def run_async(params: Params) -> {returns}:\n"
        '    """Call the tool without blocking the event loop."""\n'
        f"    return {converted.format(f'await CLIENT.run{given}')}\n"
    )


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


def _syntax_problem(text: str, name: str) -> str:
    """Return why a module cannot be compiled; empty if it can."""
    try:
        compile(text, f"{name}.py", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"{type(error).__name__}: {error}"
    return ""
