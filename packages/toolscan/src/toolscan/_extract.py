"""From the bytes of a module to the record of its tool."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from toolscan._constants import constant
from toolscan._docstrings import listed, summary_of
from toolscan._entrypoint import find_entrypoint
from toolscan._hashing import embedding_text, hash_bytes, hash_text
from toolscan._namespace import Assigned, Namespace
from toolscan._parameters import parameters
from toolscan._records import Reason, Rejection, ToolRecord
from toolscan._source import decode, parse
from toolscan._syntax import Function, ModuleText, docstring, one_line, top_level

if TYPE_CHECKING:
    from toolscan._layout import ToolId
    from toolscan._source import Source

__all__ = ["category_description", "extract"]


def extract(source: Source, tool: ToolId, path: str) -> ToolRecord:
    """Make the record of the tool that a file holds.

    Raises:
        Rejection: If it holds none that can be used.
    """
    text = decode(source.data)
    try:
        record = _record(source, text, tool, path)
    except RecursionError as error:
        raise Rejection(Reason.TOO_DEEP, "It is nested too deeply to be read.") from error
    _refuse_surrogates(record)
    return record


def category_description(data: bytes) -> str:
    """Give the docstring of a category's `__init__.py`, "" where it has none.

    Raises:
        Rejection: If the file starts with a docstring and cannot be parsed.
    """
    if not data or data.isspace():
        return ""
    text = decode(data)
    # Generated packages hold code and no docstring: no need to parse them to know.
    if '"' not in text and "'" not in text:
        return ""
    return docstring(parse(text).body)


def _record(source: Source, text: str, tool: ToolId, path: str) -> ToolRecord:
    module = parse(text)
    entrypoint = find_entrypoint(module, tool)
    function = entrypoint.function
    written = ModuleText(text)
    namespace = Namespace(module)
    params = parameters(function, namespace, written, entrypoint.description)
    documents = f"{entrypoint.description}\n\n{docstring(module.body)}"
    return ToolRecord(
        id=tool,
        path=path,
        entrypoint=entrypoint.name,
        signature=_signature(function),
        summary=summary_of(entrypoint.description),
        description=entrypoint.description,
        parameters=params,
        returns=written.written(function.returns) if function.returns else "",
        tags=_declared(namespace, "__tags__") or listed(documents, "tags"),
        use_cases=_declared(namespace, "__use_cases__") or listed(documents, "use[ -]cases"),
        is_async=isinstance(function, ast.AsyncFunctionDef),
        file_hash=hash_bytes(source.data),
        text_hash=hash_text(embedding_text(tool, entrypoint.description, params)),
        stamp=source.stamp,
        definitions=_definitions(module, function, written),
    )


def _signature(function: Function) -> str:
    returns = f" -> {one_line(function.returns)}" if function.returns else ""
    keyword = "async def" if isinstance(function, ast.AsyncFunctionDef) else "def"
    return f"{keyword} {function.name}({one_line(function.args)}){returns}"


def _declared(namespace: Namespace, name: str) -> tuple[str, ...]:
    found = namespace.lookup(name, namespace.end)
    if not isinstance(found, Assigned):
        return ()
    value = constant(found.value, namespace, found.position)
    items = value if isinstance(value, list) else [value]
    return tuple(dict.fromkeys(item.strip() for item in items if isinstance(item, str)))


def _definitions(module: ast.Module, function: Function, written: ModuleText) -> str:
    """Give the source of what the schemas are built from: all but functions and bare expressions."""
    blocks: list[str] = []
    last_line = 0
    for node in module.body:
        if isinstance(node, ast.Expr | Function) or node.lineno <= last_line:
            continue
        last_line = node.end_lineno or node.lineno
        blocks.append(written.block(node))
    blocks.append(f"{_signature(function)}: ...")
    return "\n".join(blocks)


def _refuse_surrogates(record: ToolRecord) -> None:
    texts = [record.signature, record.description, record.definitions, *record.tags]
    texts += record.use_cases
    for parameter in record.parameters:
        texts += [parameter.name, parameter.annotation, parameter.description]
        texts += [parameter.default or "", parameter.alias or ""]
    try:
        "\0".join(texts).encode()
    except UnicodeEncodeError as error:
        detail = f"Its text contains {error.object[error.start]!r}, which no UTF-8 file can hold."
        raise Rejection(Reason.SURROGATE, detail) from error
