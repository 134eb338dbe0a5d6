"""Which functions of a module are tools, and their records.

Of a module that is one tool, agents call the function `run_parsed` or `run`, at the top level.
"""

from __future__ import annotations

import ast
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, cast

from toolscan._constants import constant
from toolscan._docstrings import Docstring, is_generic, readable_docstrings
from toolscan._fields import arguments, parameters, params_class
from toolscan._layout import ToolId, is_private
from toolscan._namespace import Assigned, Namespace, Scope
from toolscan._records import Rejection, ToolRecord
from toolscan._source import (
    Function,
    ModuleText,
    Source,
    Statement,
    decode,
    docstring,
    hash_bytes,
    parse,
    refuse_surrogates,
    top_level,
)
from toolscan._stub import DEFINED_IN, async_signature

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping

    from toolscan._layout import Layout

_TEMPLATE = b"2"
"""The version of the template of embedded texts; with a new one, every text hash differs."""
ENTRYPOINTS = frozenset({"run", "run_parsed"})
# LangChain, FastMCP, smolagents and pydantic-ai; OpenAI's agents.
_MARKS = frozenset({"tool", "tool_plain", "function_tool"})
_SHOWN = 5


class Entrypoint(NamedTuple):
    """The chosen function and its description in the module."""

    name: str
    function: Function
    description: str
    summary: str


def find_entrypoint(statements: list[Statement], tool: ToolId) -> Entrypoint:
    """Choose between `run_parsed` and `run`, and join their docstrings.

    `run_parsed` is preferred if it has a docstring.

    Raises:
        Rejection: There is neither, or neither has a docstring.
    """
    functions = _functions(statements)
    functions = {name: functions[name] for name in ENTRYPOINTS & functions.keys()}
    if not functions:
        raise Rejection("no_entrypoint", _why_none(statements))
    parsed, run = (
        docstring(functions[name].body) if name in functions else ""
        for name in ("run_parsed", "run")
    )
    if not (parsed or run):
        found = " and ".join(f"{name}()" for name in sorted(functions))
        raise Rejection("no_docstring", f"No docstring in {found} says what it does.")
    name = "run_parsed" if parsed else "run"
    texts = [text for text, other in ((parsed, run), (run, parsed)) if text not in other]
    description = "\n\n".join(texts) or parsed
    hiding = parsed and run and is_generic(parsed, tool) and not is_generic(run, tool)
    summary = Docstring(run if hiding else parsed or run).summary
    return Entrypoint(name, functions[name], description, summary)


def any_entrypoint(statements: list[Statement], tool: ToolId) -> Entrypoint:
    """Choose `run`, else the function with the tool's name, else the only public function.

    Raises:
        Rejection: There is no such function, or it has no docstring.
    """
    functions = _functions(statements)
    if ENTRYPOINTS & functions.keys():
        return find_entrypoint(statements, tool)
    public = [name for name in functions if not is_private(name)]
    name = tool.name if tool.name in functions else "".join(public[:1])
    if not name or (len(public) > 1 and name != tool.name):
        detail = f"It defines no function {tool.name}(), and {len(public)} other public ones."
        raise Rejection("no_entrypoint", detail)
    return _documented(functions[name])


def tool_functions(
    statements: list[Statement], exported: tuple[str, ...], imported: Mapping[str, Function]
) -> tuple[list[Entrypoint], Rejection | None]:
    """Choose the functions of a module that contains several tools.

    They are those with a decorator that marks tools, else those in `__all__`, else all public ones.

    Returns:
        The functions, and why others that are marked or exported are not tools.

    Raises:
        Rejection: There is none.
    """
    functions = _functions(statements)
    marked = [name for name, node in functions.items() if _MARKS & _marks(node)]
    declared = marked or exported
    functions = {**imported, **functions}
    names = declared or [name for name in functions if not is_private(name)]
    found = [
        _documented(node)
        for name in names
        if (node := functions.get(name)) and docstring(node.body)
    ]
    left_out = None
    if missing := [name for name in names if name not in functions]:
        detail = f"__all__ lists names that are not functions here: {_listed(missing)}."
        left_out = Rejection("no_entrypoint", detail)
    elif bare := [name for name in names if not docstring(functions[name].body)]:
        detail = f"No docstring says what it does: {_listed(bare)}."
        left_out = Rejection("no_docstring", detail)
    if not found:
        nothing = Rejection("no_entrypoint", "It defines no public function.")
        raise left_out or nothing
    return found, left_out if declared else None


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _documented(function: Function) -> Entrypoint:
    description = docstring(function.body)
    if not description:
        detail = f"No docstring in {function.name}() says what it does."
        raise Rejection("no_docstring", detail)
    return Entrypoint(function.name, function, description, Docstring(description).summary)


def _functions(statements: list[Statement]) -> dict[str, Function]:
    """Return the definition of each function that is in effect.

    A later definition replaces an earlier one, as it does when the module runs. Of definitions in
    different branches, the first with a docstring is used. A deleted name defines nothing.
    """
    found: dict[str, list[Function]] = {}
    for node, conditional, for_type_checkers in statements:
        if isinstance(node, ast.Delete) and not conditional:
            for name in _names(node.targets):
                found.pop(name, None)
        if not isinstance(node, Function) or for_type_checkers or "overload" in _marks(node):
            continue
        if conditional:
            found.setdefault(node.name, []).append(node)
        else:
            found[node.name] = [node]
    return {
        name: next((it for it in nodes[1:] and nodes if docstring(it.body)), nodes[0])
        for name, nodes in found.items()
    }


def _marks(node: Function) -> set[str]:
    called = (it.func if isinstance(it, ast.Call) else it for it in node.decorator_list)
    return {getattr(mark, "attr", getattr(mark, "id", "")) for mark in called}


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
                function = module and _functions(module._statements).get(name)
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
            raise Rejection("no_entrypoint", detail)
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
        tags = tags or Docstring(documents).tags
        use_cases = use_cases or Docstring(documents).use_cases
        description = _with_use_cases(entrypoint.description, use_cases)
        embedded = tool.embedding_text(description, (p.alias or p.name for p in params), tags=tags)
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
        raise Rejection("too_deep", "It is nested too deeply to be read.") from error


def _signature(function: Function, written: ModuleText) -> str:
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


def hash_text(text: str) -> str:
    """Return the SHA-256 of an embedded text and the template's version.

    Each part is preceded by its length, so that different pairs never hash the same bytes.
    """
    parts = (_TEMPLATE, text.encode())
    return hash_bytes(b"".join(b"%d:%b" % (len(part), part) for part in parts))
