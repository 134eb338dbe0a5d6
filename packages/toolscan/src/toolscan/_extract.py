"""Turn the bytes of a module into the records of its tools."""

from __future__ import annotations

import ast
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, cast

from toolscan._constants import constant
from toolscan._docstrings import listed, readable_docstrings
from toolscan._entrypoints import (
    ENTRYPOINTS,
    Entrypoint,
    any_entrypoint,
    find_entrypoint,
    function_of,
    tool_functions,
)
from toolscan._hashing import embedding_text, hash_bytes, hash_text
from toolscan._issues import Reason, Rejection
from toolscan._namespace import Assigned, Namespace, Scope
from toolscan._parameters import arguments, parameters, params_class
from toolscan._records import ToolRecord
from toolscan._source import Source, decode, parse, refuse_surrogates
from toolscan._stub import DEFINED_IN, async_signature
from toolscan._syntax import Function, ModuleText, docstring, top_level

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from toolscan._layout import Layout, ToolId


class ReadModule:
    """A module that may be a tool, or contain several.

    Args:
        source: Its bytes.
        path: Posix path relative to the root.
        read: Reads another file of the root, for packages that import tools from their modules.

    Raises:
        Rejection: It cannot be parsed.
    """

    def __init__(
        self, source: Source, path: str, read: Callable[[str], Source] | None = None
    ) -> None:
        self._path = path
        self._read = read
        self._origins: dict[str, ReadModule] = {}
        self._stamp = source.stamp
        self._file_hash = hash_bytes(source.data)
        with _bounded():
            try:
                text = decode(source.data)
                self._tree = parse(text)
            except Rejection as rejection:
                rejection.text = readable_docstrings(source.data)
                raise
            self._statements = top_level(self._tree.body)
            self._written = ModuleText(text)
            self._namespace = Namespace(self._statements)

    def functions(self) -> tuple[list[str], Rejection | None]:
        """Return the names of the functions that are tools, in a file of several.

        Returns:
            The names, and why others that the module declares to be tools are not tools.

        Raises:
            Rejection: There are none.
        """
        found, left_out = self._several
        return list(found), left_out

    @cached_property
    def _several(self) -> tuple[dict[str, Entrypoint], Rejection | None]:
        with _bounded():
            exported = _declared(self._namespace, "__all__")
            imported = self._imported(exported)
            found, left_out = tool_functions(self._statements, exported, imported)
            refuse_surrogates([it.name for it in found])
        return {it.name: it for it in found}, left_out

    def _imported(self, exported: tuple[str, ...]) -> dict[str, Function]:
        """Return the exported functions that a package imports from its own modules."""
        folder, _, file = self._path.rpartition("/")
        functions: dict[str, Function] = {}
        if self._read is None or file != "__init__.py":
            return functions
        modules: dict[str, ReadModule | None] = {}
        for node, _, for_type_checkers in self._statements:
            if not isinstance(node, ast.ImportFrom) or for_type_checkers:
                continue
            path = _own_module(node, folder)
            names = {it.name for it in node.names if it.asname in {None, it.name}}
            for name in sorted(names.intersection(exported)) if path else ():
                if path not in modules:
                    modules[path] = self._module(path)
                module = modules[path]
                function = module and function_of(module._statements, name)
                if module and function:
                    functions[name], self._origins[name] = function, module
        return functions

    def _module(self, path: str) -> ReadModule | None:
        """Read a module of a package; the package's tools change when the module does."""
        # The stamp of the package's own file does not cover this module.
        self._stamp = None
        for file in (f"{path}.py", f"{path}/__init__.py"):
            with suppress(Rejection):
                if self._read is not None:
                    source = self._read(file)
                    both = f"{self._file_hash} {file} {hash_bytes(source.data)}"
                    self._file_hash = hash_bytes(both.encode())
                    return ReadModule(source, file)
        return None

    def tool(self, layout: Layout, tool: ToolId, *, definitions: bool = True) -> ToolRecord:
        """Return the record of a tool, with or without its definitions."""
        with _bounded():
            entrypoint = self._entrypoint(layout, tool)
            origin = self._origins.get(entrypoint.name, self)
            record = origin._record(entrypoint, layout, tool, definitions)
            if origin is not self:
                home = origin._path
                record = replace(
                    record,
                    path=self._path,
                    file_hash=self._file_hash,
                    stamp=self._stamp,
                    definitions=record.definitions and f"{DEFINED_IN}{home}\n{record.definitions}",
                )
            refuse_surrogates(_texts(record))
        return record

    def _entrypoint(self, layout: Layout, tool: ToolId) -> Entrypoint:
        if layout.holds_several:
            if (found := self._several[0].get(tool.name)) is not None:
                return found
            detail = f"It no longer contains a tool {tool.name}()."
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


def _own_module(node: ast.ImportFrom, package: str) -> str:
    """Return the path, without suffix, of the package's module that a statement imports from."""
    module = (node.module or "").replace(".", "/")
    if node.level == 1 and module:
        return f"{package}/{module}"
    return module if not node.level and module.startswith(f"{package}/") else ""


@contextmanager
def _bounded() -> Generator[None]:
    try:
        yield
    except (RecursionError, MemoryError) as error:
        raise Rejection(Reason.TOO_DEEP, "It is nested too deeply to be read.") from error


def _signature(function: Function, written: ModuleText) -> str:
    """Return the `def` line as written, but on one line."""
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
        value = value.split(",")  # not for use cases: a sentence may contain commas
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    texts = (item.strip() for item in items if isinstance(item, str))
    return tuple(dict.fromkeys(text for text in texts if text))


def _with_use_cases(description: str, use_cases: tuple[str, ...]) -> str:
    """Add the use cases that the description does not mention, so that searches find them."""
    told = " ".join(description.split())
    missing = [text for text in use_cases if " ".join(text.split()) not in told]
    return f"{description}\n\nUse cases: {'; '.join(missing)}" if missing else description


def _definitions(module: ast.Module, own: str, signature: str, written: ModuleText) -> str:
    """Return the source that the schemas are built from.

    Functions are reduced to their names, which may hide imported ones; a second entry point for
    event loops keeps its signature. Of expressions, only method calls are kept, because they may
    change what a name refers to.
    """
    blocks: list[str] = []
    other = async_signature(own, signature)
    for node in module.body:
        match node:
            case ast.AsyncFunctionDef() if _signature(node, written) == other:
                blocks.append(f"{other}: ...")
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
