"""The value of a constant expression, worked out without running anything."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from toolscan._namespace import Assigned, ClassFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolscan._namespace import Namespace

__all__ = ["UNKNOWN", "constant"]


class _Unknown:
    """The value of an expression that only running it would tell."""


UNKNOWN: Final = _Unknown()

_MAX_DEPTH = 50


def constant(node: ast.expr, namespace: Namespace, position: int, depth: int = 0) -> object:
    """Evaluate literals, and names and enum members of the module; `UNKNOWN` for all else."""
    if depth > _MAX_DEPTH:
        return UNKNOWN

    def inner(part: ast.expr) -> object:
        return constant(part, namespace, position, depth + 1)

    match node:
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
            value = inner(operand)
            if isinstance(value, int | float):
                return -value if isinstance(sign, ast.USub) else +value
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            first, second = inner(left), inner(right)
            if isinstance(first, str) and isinstance(second, str):
                return first + second
        case ast.List(elts=elts) | ast.Tuple(elts=elts) | ast.Set(elts=elts):
            items = [inner(element) for element in elts]
            return UNKNOWN if any(item is UNKNOWN for item in items) else items
        case ast.Dict(keys=keys, values=values):
            return _dictionary(keys, [inner(value) for value in values], inner)
        case ast.Name(id=name):
            found = namespace.lookup(name, position)
            if isinstance(found, Assigned) and not found.is_type_statement:
                return constant(found.value, namespace, found.position, depth + 1)
        case ast.Attribute():
            return _member(node, namespace, position, depth)
        case _:
            pass
    return UNKNOWN


def _dictionary(
    keys: list[ast.expr | None], values: list[object], inner: Callable[[ast.expr], object]
) -> object:
    result: dict[object, object] = {}
    for key, value in zip(keys, values, strict=True):
        name = UNKNOWN if key is None else inner(key)
        if not isinstance(name, str | int | float | bool | None) or value is UNKNOWN:
            return UNKNOWN
        result[name] = value
    return result


def _member(node: ast.Attribute, namespace: Namespace, position: int, depth: int) -> object:
    """Evaluate `Mode.fast` and `Mode.fast.value`."""
    if node.attr == "value" and isinstance(node.value, ast.Attribute):
        node = node.value
    found = namespace.meaning(node.value, position)
    if isinstance(found, ClassFound):
        for statement in found.node.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == node.attr:
                    return constant(value, namespace, found.position, depth + 1)
                case _:
                    pass
    return UNKNOWN
