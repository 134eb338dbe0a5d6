"""Fields with all that is said of them put together."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from toolscan._constants import UNKNOWN, constant, members
from toolscan._metadata import annotated, is_field, read_metadata
from toolscan._models import configuration, fields_of, subscript_args
from toolscan._namespace import ClassFound

if TYPE_CHECKING:
    from toolscan._models import Field
    from toolscan._namespace import Scope

__all__ = ["DeclaredField", "declared_fields", "discriminator_values"]


class DeclaredField:
    """A field with all that is said of it put together."""

    __slots__ = ("default", "field", "metadata", "name", "required", "scope", "type")

    def __init__(self, field: Field, config: dict[str, object], scope: Scope) -> None:
        self.field = field
        self.scope = scope
        self.type, metadata = annotated(field.annotation, scope)
        default = field.default
        if default is not None and is_field(default, scope):
            metadata, default = [*metadata, default], None
        self.metadata = read_metadata(metadata, scope)
        if isinstance(default, ast.Constant) and default.value is Ellipsis:
            self.default = None
        else:
            self.default = default if default is not None else self.metadata.default
        self.required = self.default is None and not self.metadata.has_factory
        generated = _generated_alias(field.name, config.get("alias_generator"))
        self.name = self.metadata.alias or generated

    @property
    def description(self) -> str:
        """What is said of the field: by `Field(…)`, or by the string under it."""
        return self.metadata.description or self.field.note


def declared_fields(found: ClassFound, scope: Scope) -> list[DeclaredField]:
    """Give the fields of a class with what is said of them."""
    config = configuration(found, scope)
    return [
        DeclaredField(field, config, scope.at(field.owner)) for field in fields_of(found, scope)
    ]


def discriminator_values(node: ast.expr, scope: Scope, name: str) -> tuple[str, list[str]]:
    """Give the name in data of the field that tells a union's members apart, and its values."""
    node, _ = annotated(node, scope)
    found = scope.meaning(node.value if isinstance(node, ast.Subscript) else node)
    if not isinstance(found, ClassFound):
        return name, []
    for field in declared_fields(found, scope):
        if field.field.name == name:
            return field.name, [str(value) for value in _tags(field)]
    return name, []


def _tags(field: DeclaredField) -> list[object]:
    if isinstance(field.type, ast.Subscript):
        values = [constant(arg, field.scope) for arg in subscript_args(field.type)]
    else:
        found = field.scope.meaning(field.type)
        enum = members(found, field.scope) if isinstance(found, ClassFound) else {}
        values = list(enum.values())
    return [value for value in values if value is not UNKNOWN]


def _generated_alias(name: str, generator: object) -> str:
    """Apply the alias generators that pydantic comes with."""
    match generator:
        case "pydantic.to_camel":
            if re.match("[a-z]+[A-Za-z0-9]*$", name) and not re.search(r"\d[a-z]", name):
                return name
            pascal = _pascal(name)
            return re.sub("(^_*[A-Z])", lambda found: found[1].lower(), pascal)
        case "pydantic.to_pascal":
            return _pascal(name)
        case _:
            return name


def _pascal(name: str) -> str:
    return re.sub("([0-9A-Za-z])_(?=[0-9A-Z])", lambda found: found[1], name.title())
