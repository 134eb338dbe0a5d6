"""Which functions of a module are tools.

Of a module that is one tool, agents call the function `run_parsed` or `run`, at the top level.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from toolscan._docstrings import combine, summary_of, summary_of_both
from toolscan._issues import Reason, Rejection
from toolscan._layout import ToolId, is_private
from toolscan._syntax import Function, Statement, docstring

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


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
        raise Rejection(Reason.NO_ENTRYPOINT, _why_none(statements))
    parsed, run = (
        docstring(functions[name].body) if name in functions else ""
        for name in ("run_parsed", "run")
    )
    description = combine(parsed, run)
    if not description:
        found = " and ".join(f"{name}()" for name in sorted(functions))
        raise Rejection(Reason.NO_DOCSTRING, f"No docstring in {found} says what it does.")
    name = "run_parsed" if parsed else "run"
    return Entrypoint(name, functions[name], description, summary_of_both(parsed, run, tool))


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
        raise Rejection(Reason.NO_ENTRYPOINT, detail)
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
        left_out = Rejection(Reason.NO_ENTRYPOINT, detail)
    elif bare := [name for name in names if not docstring(functions[name].body)]:
        detail = f"No docstring says what it does: {_listed(bare)}."
        left_out = Rejection(Reason.NO_DOCSTRING, detail)
    if not found:
        nothing = Rejection(Reason.NO_ENTRYPOINT, "It defines no public function.")
        raise left_out or nothing
    return found, left_out if declared else None


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _documented(function: Function) -> Entrypoint:
    description = docstring(function.body)
    if not description:
        detail = f"No docstring in {function.name}() says what it does."
        raise Rejection(Reason.NO_DOCSTRING, detail)
    return Entrypoint(function.name, function, description, summary_of(description))


def function_of(statements: list[Statement], name: str) -> Function | None:
    """Return the definition of a function; `None` if the module has none of that name."""
    return _functions(statements).get(name)


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
        if not isinstance(node, Function) or for_type_checkers or _is_overload(node):
            continue
        if conditional:
            found.setdefault(node.name, []).append(node)
        else:
            found[node.name] = [node]
    return {
        name: nodes[0] if len(nodes) == 1 else next(filter(_is_documented, nodes), nodes[0])
        for name, nodes in found.items()
    }


def _is_documented(node: Function) -> bool:
    return bool(docstring(node.body))


def _is_overload(node: Function) -> bool:
    return "overload" in _marks(node)


def _marks(node: Function) -> set[str]:
    """Return the names of a function's decorators, without their modules."""
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
