"""The function an agent calls: top-level `run_parsed` or `run`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Literal, NamedTuple

from toolscan._docstrings import combine, summary_of_both
from toolscan._records import Reason, Rejection
from toolscan._syntax import Function, docstring

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolscan._layout import ToolId
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
    functions = _definitions(statements)
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


def _definitions(statements: list[Statement]) -> dict[str, Function]:
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
