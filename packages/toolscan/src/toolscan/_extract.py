"""Turn the bytes of a module into the record of its tool.

Agents call its function `run_parsed` or `run`, at the top level.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from toolscan._constants import constant
from toolscan._docstrings import combine, listed, summary_of_both
from toolscan._hashing import embedding_text, hash_bytes, hash_text
from toolscan._namespace import Assigned, Namespace, Scope
from toolscan._parameters import arguments, parameters, params_class
from toolscan._records import Reason, Rejection, ToolRecord
from toolscan._source import decode, parse, refuse_surrogates
from toolscan._syntax import Function, ModuleText, docstring, top_level

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toolscan._layout import ToolId
    from toolscan._source import Source
    from toolscan._syntax import Statement

ENTRYPOINTS = frozenset({"run", "run_parsed"})


class Entrypoint(NamedTuple):
    """The chosen function and the description that the module gives of it."""

    name: Literal["run", "run_parsed"]
    function: Function
    description: str
    summary: str


def find_entrypoint(statements: list[Statement], tool: ToolId) -> Entrypoint:
    """Choose between `run_parsed` and `run`, and join their docstrings.

    `run_parsed` is preferred where it has a docstring.

    Raises:
        Rejection: If there is neither, or neither has a docstring.
    """
    functions = _candidates(statements)
    if not functions:
        raise Rejection(Reason.NO_ENTRYPOINT, _why_none(statements))
    parsed, run = (
        docstring(functions[name].body) if name in functions else ""
        for name in ("run_parsed", "run")
    )
    description = combine(parsed, run)
    if not description:
        found = " and ".join(f"{name}()" for name in sorted(functions))
        raise Rejection(Reason.NO_DOCSTRING, f"No docstring in {found} says what it does.")
    name: Literal["run", "run_parsed"] = "run_parsed" if parsed else "run"
    return Entrypoint(name, functions[name], description, summary_of_both(parsed, run, tool))


def _candidates(statements: list[Statement]) -> dict[str, Function]:
    """Return the definition of each entry point that is in effect.

    A later definition replaces an earlier one, as it does when the module runs. Among those of
    different branches the first that has a docstring is taken. A name that is deleted
    defines nothing.
    """
    found: dict[str, list[Function]] = {}
    for node, conditional, for_type_checkers in statements:
        if isinstance(node, ast.Delete) and not conditional:
            for name in _names(node.targets):
                found.pop(name, None)
        if (
            not isinstance(node, Function)
            or node.name not in ENTRYPOINTS
            or for_type_checkers
            or _is_overload(node)
        ):
            continue
        if conditional:
            found.setdefault(node.name, []).append(node)
        else:
            found[node.name] = [node]
    return {
        name: next((node for node in nodes if docstring(node.body)), nodes[0])
        for name, nodes in found.items()
    }


def _is_overload(node: Function) -> bool:
    names = (getattr(mark, "attr", getattr(mark, "id", None)) for mark in node.decorator_list)
    return "overload" in names


def _why_none(statements: list[Statement]) -> str:
    for node, _, _ in statements:
        match node:
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                bound = {alias.asname or alias.name for alias in aliases}
            case ast.Assign(targets=targets):
                bound = _names(targets)
            case ast.AnnAssign(target=target):
                bound = _names([target])
            case ast.ClassDef(name=name):
                bound = {name}
            case _:
                continue
        if named := bound & ENTRYPOINTS:
            return f"It defines no function {min(named)}(): the name is imported or assigned."
    return "It defines no function run() or run_parsed() at its top level."


def _names(targets: Iterable[ast.expr]) -> set[str]:
    return {target.id for target in targets if isinstance(target, ast.Name)}


def extract(source: Source, tool: ToolId, path: str, *, definitions: bool = True) -> ToolRecord:
    """Return the record of the tool in a file, with or without its definitions.

    Raises:
        Rejection: If the file holds no usable tool.
    """
    try:
        record = _record(source, decode(source.data), tool, path, definitions)
        refuse_surrogates(_texts(record))
    except (RecursionError, MemoryError) as error:
        raise Rejection(Reason.TOO_DEEP, "It is nested too deeply to be read.") from error
    return record


def _record(source: Source, text: str, tool: ToolId, path: str, definitions: bool) -> ToolRecord:
    module = parse(text)
    statements = top_level(module.body)
    entrypoint = find_entrypoint(statements, tool)
    function = entrypoint.function
    written = ModuleText(text)
    namespace = Namespace(statements)
    scope = Scope(namespace, namespace.end, None, namespace.lazy)
    refuse_surrogates([entrypoint.description])
    held = params_class(function, scope)
    params = parameters(function, held, scope, written, entrypoint.description)
    signature = _signature(function, written)
    documents = f"{entrypoint.description}\n\n{docstring(module.body)}"
    tags = _declared(namespace, "__tags__") or listed(documents, "Tags")
    use_cases = _declared(namespace, "__use_cases__") or listed(documents, "Use[ -][Cc]ases")
    description = _with_use_cases(entrypoint.description, use_cases)
    embedded = embedding_text(tool, description, (p.alias or p.name for p in params), tags=tags)
    refuse_surrogates([embedded])
    return ToolRecord(
        id=tool,
        path=path,
        entrypoint=entrypoint.name,
        signature=signature,
        summary=entrypoint.summary,
        description=description,
        parameters=params,
        returns=written.written(function.returns) if function.returns else "",
        tags=tags,
        use_cases=use_cases,
        is_async=isinstance(function, ast.AsyncFunctionDef),
        file_hash=hash_bytes(source.data),
        text_hash=hash_text(embedded),
        stamp=source.stamp,
        params_class=held.node.name if held else "",
        definitions=_definitions(module, signature, written) if definitions else "",
    )


def _signature(function: Function, written: ModuleText) -> str:
    """Return the `def` line, on one line and with everything as written."""
    parts: list[str] = []
    positional_only = len(function.args.posonlyargs)
    needs_star = bool(function.args.kwonlyargs) and function.args.vararg is None
    first_keyword = function.args.kwonlyargs[0].arg if needs_star else ""
    for index, argument in enumerate(arguments(function)):
        if needs_star and argument.name == first_keyword:
            parts.append("*")
        text = argument.prefix + argument.name
        if argument.annotation is not None:
            text += f": {written.written(argument.annotation)}"
        if argument.default is not None:
            equals = " = " if argument.annotation is not None else "="
            text += f"{equals}{written.written(argument.default)}"
        parts.append(text)
        if index + 1 == positional_only:
            parts.append("/")
    returns = f" -> {written.written(function.returns)}" if function.returns else ""
    keyword = "async def" if isinstance(function, ast.AsyncFunctionDef) else "def"
    return f"{keyword} {function.name}({', '.join(parts)}){returns}"


def _declared(namespace: Namespace, name: str) -> tuple[str, ...]:
    found = namespace.lookup(name, namespace.end)
    if not isinstance(found, Assigned):
        return ()
    value = constant(found.value, Scope(namespace, found.position))
    if isinstance(value, str) and name == "__tags__":
        value = value.split(",")  # a use case is a sentence, in which commas are its own
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    texts = (item.strip() for item in items if isinstance(item, str))
    return tuple(dict.fromkeys(text for text in texts if text))


def _with_use_cases(description: str, use_cases: tuple[str, ...]) -> str:
    """Add the use cases that the description does not mention, so that they are searched too."""
    told = " ".join(description.split())
    missing = [text for text in use_cases if " ".join(text.split()) not in told]
    return f"{description}\n\nUse cases: {'; '.join(missing)}" if missing else description


def _definitions(module: ast.Module, signature: str, written: ModuleText) -> str:
    """Return the source of what the schemas are built from.

    Of functions only their names are kept, which may hide imported ones, and of expressions the
    calls of methods, which may change what a name stands for.
    """
    blocks: list[str] = []
    for node in module.body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if name not in ENTRYPOINTS:
                    blocks.append(f"def {name}(): ...")
            case ast.Expr(value=ast.Call(func=ast.Attribute())):
                blocks.append(written.block(node))
            case ast.Expr():
                pass
            case _:
                blocks.append(written.block(node))
    return "\n".join([*blocks, f"{signature}: ..."])


def _texts(record: ToolRecord) -> Iterator[str]:
    yield from (record.signature, record.returns, record.definitions)
    yield from record.tags
    yield from record.use_cases
    for parameter in record.parameters:
        yield from (parameter.name, parameter.annotation, parameter.description)
        yield from (parameter.default or "", parameter.alias or "")
