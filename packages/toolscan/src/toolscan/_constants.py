"""The value of a constant expression, worked out without running anything."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from toolscan._namespace import Assigned, ClassFound

if TYPE_CHECKING:
    from toolscan._namespace import Scope

__all__ = ["UNKNOWN", "constant", "members"]


class _Unknown:
    """The value of an expression that only running it would tell."""


UNKNOWN: Final = _Unknown()

_MAX_DEPTH = 50
_MAX_STEPS = 10_000
"""A list of lists of names can stand for more values than there are atoms."""


def constant(node: ast.expr, scope: Scope) -> object:
    """Evaluate literals, and names and enum members of the module; `UNKNOWN` for all else."""
    return _Evaluation().of(node, scope, 0)


class _Evaluation:
    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps = 0

    def of(self, node: ast.expr, scope: Scope, depth: int) -> object:
        self._steps += 1
        if depth > _MAX_DEPTH or self._steps > _MAX_STEPS:
            return UNKNOWN
        match node:
            case ast.Constant(value=value):
                return value
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
                number = self.of(operand, scope, depth + 1)
                if isinstance(number, int | float):
                    return -number if isinstance(sign, ast.USub) else +number
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                first, second = (self.of(side, scope, depth + 1) for side in (left, right))
                if isinstance(first, str) and isinstance(second, str):
                    return first + second
            case ast.List(elts=elts) | ast.Tuple(elts=elts) | ast.Set(elts=elts):
                items = [self.of(element, scope, depth + 1) for element in elts]
                return UNKNOWN if any(item is UNKNOWN for item in items) else items
            case ast.Dict(keys=keys, values=values):
                return self._dictionary(keys, values, scope, depth)
            case ast.Name():
                found = scope.lookup(node)
                if isinstance(found, Assigned) and not found.is_type_statement:
                    return self.of(found.value, scope.before(found.position), depth + 1)
            case ast.Attribute():
                return self._member(node, scope, depth)
            case _:
                pass
        return UNKNOWN

    def _dictionary(
        self, keys: list[ast.expr | None], values: list[ast.expr], scope: Scope, depth: int
    ) -> object:
        result: dict[object, object] = {}
        for key, value in zip(keys, values, strict=True):
            name = UNKNOWN if key is None else self.of(key, scope, depth + 1)
            item = self.of(value, scope, depth + 1)
            if not isinstance(name, str | int | float | bool | None) or item is UNKNOWN:
                return UNKNOWN
            result[name] = item
        return result

    def _member(self, node: ast.Attribute, scope: Scope, depth: int) -> object:
        """Evaluate `Mode.fast` and `Mode.fast.value`."""
        if node.attr == "value" and isinstance(node.value, ast.Attribute):
            node = node.value
        found = scope.meaning(node.value)
        if isinstance(found, ClassFound):
            return self.members(found, scope, depth + 1).get(node.attr, UNKNOWN)
        return UNKNOWN

    def members(self, found: ClassFound, scope: Scope, depth: int) -> dict[str, object]:
        scope = scope.at(found)
        bases = {scope.qualified(base) for base in found.node.bases}
        values: dict[str, object] = {}
        for statement in found.node.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=node) if name[0] != "_":
                    pass
                case _:
                    continue
            if isinstance(node, ast.Call) and scope.qualified(node.func) == "enum.auto":
                value = _automatic(name, list(values.values()), bases)
            else:
                value = self.of(node, scope, depth + 1)
            values[name] = _mixed_in(value, bases)
        return values


def members(found: ClassFound, scope: Scope) -> dict[str, object]:
    """Give the members of an enum by name, with their values as pydantic gives them in JSON."""
    return _Evaluation().members(found, scope, 0)


def _automatic(name: str, before: list[object], bases: set[str]) -> object:
    if "enum.StrEnum" in bases:
        return name.lower()
    numbers = [value for value in before if isinstance(value, int | float)]
    if bases & {"enum.Flag", "enum.IntFlag"}:
        return 1 << int(max(numbers, default=0)).bit_length()
    # Among values that cannot be compared, Python up to 3.12 counts on from the last number.
    comparable = len(numbers) == len(before)
    return (max(numbers, default=0) if comparable else numbers[-1] if numbers else 0) + 1


def _mixed_in(value: object, bases: set[str]) -> object:
    """Convert a value as a type mixed into the enum does: `class Mode(str, Enum)`."""
    if not isinstance(value, str | int | float):
        return value
    try:
        if "builtins.str" in bases:
            return str(value)
        if bases & {"builtins.int", "enum.IntEnum", "enum.IntFlag"}:
            return int(value)
        return float(value) if "builtins.float" in bases else value
    except (ValueError, OverflowError):  # Python would refuse the class
        return value
