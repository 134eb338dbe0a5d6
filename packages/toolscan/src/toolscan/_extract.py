"""Turn the bytes of a module into the record of its tool."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, cast

from toolscan._constants import constant
from toolscan._docstrings import listed
from toolscan._entrypoint import ENTRYPOINTS, find_entrypoint
from toolscan._hashing import embedding_text, hash_bytes, hash_text
from toolscan._namespace import Assigned, Namespace, Scope
from toolscan._parameters import arguments, parameters, params_class
from toolscan._records import Reason, Rejection, ToolRecord
from toolscan._source import decode, parse, refuse_surrogates
from toolscan._syntax import Function, ModuleText, docstring, top_level

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolscan._layout import ToolId
    from toolscan._source import Source


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
