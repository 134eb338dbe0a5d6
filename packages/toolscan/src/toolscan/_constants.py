"""The value of a constant expression, computed without running anything."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from toolscan._namespace import Assigned, ClassFound, Scope, ancestry, bound_values
from toolscan._source import top_level

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Unknown:
    """The value of an expression that can only be known by running it."""


UNKNOWN: Final = _Unknown()

_MAX_DEPTH = 50
_MAX_SIZE = 100_000
"""The maximum of characters and items in one value, because each line can double a text or list."""
_MAX_ENUM_SIZE = 2_000_000
_MAX_REUSED = 2_000_000
"""The maximum for all values of a module, each counted as often as a name refers to it."""
_MAX_BITS = 14_000
"""Python itself refuses to write integers of more than 4,300 digits as text."""


def constant(node: ast.expr, scope: Scope) -> object:
    """Evaluate a literal, name or enum member of the module; return `UNKNOWN` for anything else."""
    if isinstance(node, ast.Constant):
        return _Evaluation().atom(node.value)
    return _Evaluation().of(node, scope, 0)


class _Evaluation:
    __slots__ = ("_left",)

    def __init__(self, size: int = _MAX_SIZE) -> None:
        self._left = size

    def of(self, node: ast.expr, scope: Scope, depth: int) -> object:
        if depth > _MAX_DEPTH or not self._spend(1):
            return UNKNOWN
        match node:
            case ast.Constant(value=value):
                return self.atom(value)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
                number = self.of(operand, scope, depth + 1)
                if isinstance(number, int | float):
                    return -number if isinstance(sign, ast.USub) else +number
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                first, second = (self.of(side, scope, depth + 1) for side in (left, right))
                if isinstance(first, str) and isinstance(second, str):
                    fits = self._spend(len(first) + len(second))
                    return first + second if fits else UNKNOWN
            case ast.List(elts=elts) | ast.Tuple(elts=elts) | ast.Set(elts=elts):
                return self._items(elts, scope, depth)
            case ast.Dict(keys=keys, values=values):
                return self._dictionary(keys, values, scope, depth)
            case ast.Name():
                return self._name(node, scope, depth)
            case ast.Attribute():
                return self._member(node, scope, depth)
            case _:
                pass
        return UNKNOWN

    def atom(self, value: object) -> object:
        """Return a constant unchanged, unless it is too large."""
        if isinstance(value, int) and value.bit_length() > _MAX_BITS:
            return UNKNOWN
        if isinstance(value, str | bytes) and not self._spend(len(value)):
            return UNKNOWN
        return value

    def _spend(self, size: int) -> bool:
        self._left -= size
        return self._left >= 0

    def _items(self, elts: list[ast.expr], scope: Scope, depth: int) -> object:
        items: list[object] = []
        for element in elts:
            items.append(self.of(element, scope, depth + 1))
            if items[-1] is UNKNOWN:
                return UNKNOWN
        return items

    def _name(self, node: ast.Name, scope: Scope, depth: int) -> object:
        found = scope.value(node)
        if not isinstance(found, Assigned) or found.is_type_statement:
            return UNKNOWN
        display = not isinstance(found.value, ast.Constant)
        if display and found.name in scope.namespace.changed:
            return UNKNOWN
        values = scope.namespace.values
        if found.value not in values:
            # In case it refers to itself, which would fail in Python.
            values[found.value] = (UNKNOWN, 1)
            inside = scope.owner is not None and found.position == scope.position
            where = scope if inside else scope.before(found.position)
            # It has a separate budget, so that its value does not depend on the caller.
            value = _Evaluation().of(found.value, where, depth + 1)
            values[found.value] = (value, _size(value))
        return self._reused(*values[found.value], scope)

    def _reused(self, value: object, size: int, scope: Scope) -> object:
        """Return a value again, unless the total of repeated values is too large."""
        scope.namespace.reused += size
        fits = self._spend(size) and scope.namespace.reused <= _MAX_REUSED
        return value if fits else UNKNOWN

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
        if not isinstance(found, ClassFound) or found.node.name in scope.namespace.changed:
            return UNKNOWN
        value = members(found, scope, depth + 1).get(node.attr, UNKNOWN)
        return self._reused(value, _size(value), scope)


def _size(value: object) -> int:
    match value:
        case str() | bytes():
            return len(value)
        case list():
            return 1 + sum(map(_size, cast("list[object]", value)))
        case dict():
            pairs = cast("dict[object, object]", value).items()
            return 1 + sum(_size(key) + _size(item) for key, item in pairs)
        case _:
            return 1


def members(found: ClassFound, scope: Scope, depth: int = 0) -> dict[str, object]:
    """Return the members of an enum by name, with the values that pydantic writes in JSON.

    A member that equals an earlier one is an alias and has its value. Values that the enum computes
    itself, in `__new__` for example, are `UNKNOWN`.
    """
    enums = scope.namespace.enums
    if found.node not in enums:
        enums[found.node] = {}  # in case a value refers to this enum
        enums[found.node] = _members(found, scope, depth)
    return enums[found.node]


class _Making(NamedTuple):
    """How an enum computes its members' values from the assignments in its body."""

    bases: frozenset[str]
    methods: frozenset[str]
    custom: bool


_PLAIN = {"builtins.object", "typing.Generic"} | {
    *(f"builtins.{name}" for name in ("str", "int", "float", "bytes")),
    *(f"enum.{name}" for name in ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag")),
}
"""Bases whose effect on a value is known."""


def _making(found: ClassFound, scope: Scope) -> _Making:
    classes, others, is_certain = ancestry(found, scope)
    nodes = [it for own in classes for it in own.node.body if isinstance(it, ast.FunctionDef)]
    methods = frozenset(node.name for node in nodes)
    bases = frozenset(other.name or "?" for other in others)
    sets_value = any(node.name == "__init__" and _sets_value(node) for node in nodes)
    custom = sets_value or "__new__" in methods or not is_certain or bool(bases - _PLAIN)
    return _Making(bases, methods, custom)


def _sets_value(node: ast.FunctionDef) -> bool:
    return any(isinstance(it, ast.Attribute) and it.attr == "_value_" for it in ast.walk(node))


def _members(found: ClassFound, scope: Scope, depth: int) -> dict[str, object]:
    scope = scope.at(found)
    making = _making(found, scope)
    assigned = list(_assigned(found.node))
    if any(name == "_ignore_" for name, _ in assigned):
        return {}
    evaluation = _Evaluation(_MAX_ENUM_SIZE)
    values: dict[str, object] = {}
    first: dict[object, object] = {}
    given: list[object] = []
    for name, node in assigned:
        value: object = UNKNOWN
        if isinstance(node, ast.Call):
            called = scope.qualified(node.func)
            if called == "enum.nonmember":
                continue
            if called == "enum.auto" and not node.args:
                value = _automatic(name, given, making)
            elif called == "enum.member" and len(node.args) == 1:
                value = evaluation.of(node.args[0], scope, depth + 1)
        elif isinstance(node, ast.Lambda):
            continue  # a function is a method
        elif node is not None:
            value = evaluation.of(node, scope, depth + 1)
        given.append(value)
        made = UNKNOWN if making.custom else _mixed_in(value, node, making.bases)
        if made is not UNKNOWN and not isinstance(made, list | dict):
            made = first.setdefault(made, made)
        values[name] = made
    return values


def _assigned(owner: ast.ClassDef) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the values that an enum's body assigns to its members; `None` for unknown ones."""
    for statement in top_level(owner.body):
        node = statement.node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.ClassDef):  # a member only before Python 3.13
            yield node.name, None
        for name, value in bound_values(node):
            if name == "_ignore_" or not _is_special(name):
                yield name, None if statement.conditional else value


def _is_special(name: str) -> bool:
    """Return whether an enum reserves a name: `_order_`, `__slots__`, and private `__x`."""
    return name.startswith("__") or (len(name) > 2 and name[0] == "_" == name[-1])


def _automatic(name: str, before: list[object], making: _Making) -> object:
    if "_generate_next_value_" in making.methods or UNKNOWN in before:
        return UNKNOWN
    if "enum.StrEnum" in making.bases:
        return name.lower()
    numbers = [value for value in before if isinstance(value, int | float)]
    if making.bases & {"enum.Flag", "enum.IntFlag"}:
        whole = [value for value in numbers if isinstance(value, int)]
        known = len(whole) == len(before)
        return 1 << max(whole, default=0).bit_length() if known else UNKNOWN
    # If values cannot be compared, Python up to 3.12 continues from the last number.
    comparable = len(numbers) == len(before)
    return (max(numbers, default=0) if comparable else numbers[-1] if numbers else 0) + 1


def _mixed_in(value: object, node: ast.expr | None, bases: frozenset[str]) -> object:
    """Convert a value as a type mixed into the enum does: `class Mode(str, Enum)`."""
    text = bool(bases & {"builtins.str", "enum.StrEnum"})
    whole = bool(bases & {"builtins.int", "enum.IntEnum", "enum.IntFlag"})
    if not (text or whole or "builtins.float" in bases):
        return value
    if isinstance(node, ast.Tuple) and isinstance(value, list) and len(node.elts) == 1:
        (value,) = cast("list[object]", value)  # a trailing comma: a tuple of the type's arguments
    if not isinstance(value, str | int | float):
        return UNKNOWN
    try:
        if text:
            return str(value)
        return int(value) if whole else float(value)
    except (ValueError, OverflowError):  # the class would fail in Python
        return UNKNOWN
