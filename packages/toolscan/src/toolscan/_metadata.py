"""What is said of a type beside the type: `Field(…)`, `Annotated[…]`, constraints."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from toolscan._constants import UNKNOWN, constant

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolscan._namespace import Scope

__all__ = ["CONSTRAINTS", "Metadata", "annotated", "is_field", "read_constraints", "read_metadata"]

CONSTRAINTS = frozenset(
    {"ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length", "pattern"}
)
_FIELD = {"pydantic.Field", "dataclasses.field"}
# Names of annotated_types: what their positional arguments mean.
_ANNOTATED_TYPES = {
    "Ge": ("ge",),
    "Gt": ("gt",),
    "Le": ("le",),
    "Lt": ("lt",),
    "MultipleOf": ("multiple_of",),
    "MinLen": ("min_length",),
    "MaxLen": ("max_length",),
    "Len": ("min_length", "max_length"),
    "Interval": ("gt", "ge", "lt", "le"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """What `Field(…)` and the metadata of `Annotated[…]` say, later ones first in authority.

    Attributes:
        constraints: Bounds on the value, by pydantic's name for them.
        annotations: Keywords of JSON Schema that describe and do not restrict.
        alias: Name in data.
        default: The default, as an expression.
        has_factory: Whether the default is made by a function.
        discriminator: The field that tells the members of a union apart.
        override: A schema that replaces the type's own.
        note: A text that pydantic does not take for a description, and people mean as one.
    """

    constraints: dict[str, object] = field(default_factory=dict[str, object])
    annotations: dict[str, object] = field(default_factory=dict[str, object])
    alias: str | None = None
    default: ast.expr | None = None
    has_factory: bool = False
    discriminator: str | None = None
    override: dict[str, object] | None = None
    note: str = ""

    @property
    def description(self) -> str:
        """The description, "" where there is none."""
        text = self.annotations.get("description")
        return inspect.cleandoc(text).strip() if isinstance(text, str) else self.note


def is_field(node: ast.expr | None, scope: Scope) -> bool:
    """Tell whether an expression is a `Field(…)` call."""
    return isinstance(node, ast.Call) and scope.qualified(node.func) in _FIELD


def annotated(node: ast.expr, scope: Scope) -> tuple[ast.expr, list[ast.expr]]:
    """Take `Annotated[T, …]` apart; any other type has no metadata."""
    metadata: list[ast.expr] = []
    while isinstance(node, ast.Subscript) and scope.qualified(node.value) == "typing.Annotated":
        if not isinstance(node.slice, ast.Tuple) or not node.slice.elts:
            break
        node, *rest = node.slice.elts
        metadata = rest + metadata
    return node, metadata


def read_metadata(nodes: Iterable[ast.expr], scope: Scope) -> Metadata:
    """Put together what metadata expressions say."""
    result = Metadata()
    for node in nodes:
        match node:
            case ast.Call(func=func):
                result = _read_call(result, scope.qualified(func), node, scope)
            case ast.Constant(value=str(text)):
                result = replace(result, note=inspect.cleandoc(text).strip())
            case _:
                pass
    return result


def _read_call(result: Metadata, name: str, call: ast.Call, scope: Scope) -> Metadata:
    given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    module, _, short = name.rpartition(".")
    if name in _FIELD:
        if call.args:
            given["default"] = call.args[0]
        return _read_field(result, given, scope)
    if name == "pydantic.StringConstraints" or (
        module == "annotated_types" and short in _ANNOTATED_TYPES
    ):
        given |= dict(zip(_ANNOTATED_TYPES.get(short, ()), call.args, strict=False))
        return replace(result, constraints=result.constraints | read_constraints(given, scope))
    first = constant(call.args[0], scope) if call.args else UNKNOWN
    if name == "pydantic.WithJsonSchema" and isinstance(first, dict):
        return replace(result, override=first)
    if name == "pydantic.PlainValidator":
        return replace(result, override={})
    if name == "pydantic.Discriminator" and isinstance(first, str):
        return replace(result, discriminator=first)
    if name == "typing.Doc" and isinstance(first, str):
        return replace(result, note=inspect.cleandoc(first).strip())
    return result


def _read_field(result: Metadata, given: dict[str, ast.expr], scope: Scope) -> Metadata:
    discriminator = constant(given["discriminator"], scope) if "discriminator" in given else None
    default = given.get("default")
    if isinstance(default, ast.Constant) and default.value is Ellipsis:
        default, result = None, replace(result, default=None, has_factory=False)
    return replace(
        result,
        constraints=result.constraints | read_constraints(given, scope),
        annotations=result.annotations | _annotations(given, scope),
        alias=_alias(given, scope) or result.alias,
        default=default if default is not None else result.default,
        has_factory="default_factory" in given or (result.has_factory and default is None),
        discriminator=discriminator if isinstance(discriminator, str) else result.discriminator,
    )


def read_constraints(given: dict[str, ast.expr], scope: Scope) -> dict[str, object]:
    """Give the constraints among keyword arguments, as far as they are constant."""
    values = {name: constant(given[name], scope) for name in CONSTRAINTS & given.keys()}
    return {name: value for name, value in values.items() if isinstance(value, int | float | str)}


def _annotations(given: dict[str, ast.expr], scope: Scope) -> dict[str, object]:
    result: dict[str, object] = {}
    for name in ("title", "description", "examples"):
        if name in given and (value := constant(given[name], scope)) not in (UNKNOWN, None):
            result[name] = value
    if "deprecated" in given and constant(given["deprecated"], scope):
        result["deprecated"] = True
    if "json_schema_extra" in given:
        extra = constant(given["json_schema_extra"], scope)
        result |= extra if isinstance(extra, dict) else {}
    return result


def _alias(given: dict[str, ast.expr], scope: Scope) -> str | None:
    for name in ("validation_alias", "alias"):
        node = given.get(name)
        if isinstance(node, ast.Call) and scope.qualified(node.func) == "pydantic.AliasChoices":
            choices = [constant(arg, scope) for arg in node.args]
            return next((choice for choice in choices if isinstance(choice, str)), None)
        value = constant(node, scope) if node is not None else None
        if isinstance(value, str):
            return value
    return None
