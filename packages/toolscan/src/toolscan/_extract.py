"""Turn the bytes of a module into the records of its tools."""

from __future__ import annotations

import ast
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, cast

from toolscan._constants import constant
from toolscan._docstrings import listed
from toolscan._entrypoints import ENTRYPOINTS, any_entrypoint, find_entrypoint, tool_functions
from toolscan._hashing import embedding_text, hash_bytes, hash_text
from toolscan._namespace import Assigned, Namespace, Scope
from toolscan._parameters import arguments, parameters, params_class
from toolscan._records import Reason, Rejection, ToolRecord
from toolscan._source import decode, parse, refuse_surrogates
from toolscan._syntax import ModuleText, docstring, top_level

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from toolscan._entrypoints import Entrypoint
    from toolscan._layout import Layout, ToolId
    from toolscan._source import Source
    from toolscan._syntax import Function


class ReadModule:
    """A module that may be a tool, or hold several.

    Args:
        source: Its bytes.
        path: Posix path relative to the root.

    Raises:
        Rejection: It cannot be parsed.
    """

    def __init__(self, source: Source, path: str) -> None:
        self._path = path
        self._stamp = source.stamp
        self._file_hash = hash_bytes(source.data)
        with _bounded():
            text = decode(source.data)
            self._tree = parse(text)
            self._statements = top_level(self._tree.body)
            self._written = ModuleText(text)
            self._namespace = Namespace(self._statements)

    def functions(self) -> tuple[list[str], Rejection | None]:
        """Return the names of the functions that are tools, where a file holds several.

        Returns:
            The names, and why others that the module declares to be tools are not tools.

        Raises:
            Rejection: There is none.
        """
        found, left_out = self._several
        return list(found), left_out

    @cached_property
    def _several(self) -> tuple[dict[str, Entrypoint], Rejection | None]:
        with _bounded():
            exported = _declared(self._namespace, "__all__")
            found, left_out = tool_functions(self._statements, exported)
            refuse_surrogates([it.name for it in found])
        return {it.name: it for it in found}, left_out

    def tool(self, layout: Layout, tool: ToolId, *, definitions: bool = True) -> ToolRecord:
        """Return the record of a tool, with or without its definitions.

        Raises:
            Rejection: The module does not hold it.
        """
        with _bounded():
            record = self._record(self._entrypoint(layout, tool), layout, tool, definitions)
            refuse_surrogates(_texts(record))
        return record

    def _entrypoint(self, layout: Layout, tool: ToolId) -> Entrypoint:
        if layout.holds_several:
            if (found := self._several[0].get(tool.name)) is not None:
                return found
            detail = f"It holds no tool {tool.name}() any more."
            raise Rejection(Reason.NO_ENTRYPOINT, detail)
        if layout.any_function:
            return any_entrypoint(self._statements, tool)
        return find_entrypoint(self._statements, tool)

    def _record(
        self, entrypoint: Entrypoint, layout: Layout, tool: ToolId, definitions: bool
    ) -> ToolRecord:
        function, written, namespace = entrypoint.function, self._written, self._namespace
        scope = Scope(namespace, namespace.end, None, namespace.lazy)
        refuse_surrogates([entrypoint.description])
        held = params_class(function, scope)
        params = parameters(function, held, scope, written, entrypoint.description)
        signature = _signature(function, written)
        documents = entrypoint.description
        tags, use_cases = _declared(namespace, "__tags__"), tuple[str, ...]()
        if not layout.holds_several:
            documents += f"\n\n{docstring(self._tree.body)}"
            use_cases = _declared(namespace, "__use_cases__")
        tags = tags or listed(documents, "Tags")
        use_cases = use_cases or listed(documents, "Use[ -][Cc]ases")
        description = _with_use_cases(entrypoint.description, use_cases)
        embedded = embedding_text(tool, description, (p.alias or p.name for p in params), tags=tags)
        refuse_surrogates([embedded])
        return ToolRecord(
            id=tool,
            path=self._path,
            entrypoint=entrypoint.name,
            signature=signature,
            summary=entrypoint.summary,
            description=description,
            parameters=params,
            returns=written.written(function.returns) if function.returns else "",
            tags=tags,
            use_cases=use_cases,
            is_async=isinstance(function, ast.AsyncFunctionDef),
            file_hash=self._file_hash,
            text_hash=hash_text(embedded),
            stamp=self._stamp,
            params_class=held.node.name if held else "",
            definitions=_definitions(self._tree, function.name, signature, written)
            if definitions
            else "",
        )


@contextmanager
def _bounded() -> Generator[None]:
    try:
        yield
    except (RecursionError, MemoryError) as error:
        raise Rejection(Reason.TOO_DEEP, "It is nested too deeply to be read.") from error


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
        value = value.split(",")  # a use case is a sentence, so a comma does not end it
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    texts = (item.strip() for item in items if isinstance(item, str))
    return tuple(dict.fromkeys(text for text in texts if text))


def _with_use_cases(description: str, use_cases: tuple[str, ...]) -> str:
    """Add the use cases that the description does not mention, so that they are searched too."""
    told = " ".join(description.split())
    missing = [text for text in use_cases if " ".join(text.split()) not in told]
    return f"{description}\n\nUse cases: {'; '.join(missing)}" if missing else description


def _definitions(module: ast.Module, own: str, signature: str, written: ModuleText) -> str:
    """Return the source of what the schemas are built from.

    Functions are reduced to their names, which may hide imported ones, and expressions to method
    calls, which may change what a name refers to.
    """
    blocks: list[str] = []
    for node in module.body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if name not in {own, *ENTRYPOINTS}:
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
