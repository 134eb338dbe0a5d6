"""The fields of a class, with everything declared about them."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import cast

from toolscan._configuration import configuration
from toolscan._constants import constant, members
from toolscan._metadata import Metadata, annotated, is_field, is_required_mark, read_metadata
from toolscan._models import (
    Field,
    Kind,
    fields_of,
    kind_of,
    linearize,
    scopes_of,
    subscript_args,
)
from toolscan._namespace import Assigned, ClassFound, Scope
from toolscan._sections import parameter_descriptions
from toolscan._syntax import docstring


class DeclaredField:
    """A field with everything declared about it."""

    __slots__ = (
        *(
            "default",
            "field",
            "is_named",
            "metadata",
            "name",
            "required",
            "documented",
            "scope",
            "type",
        ),
    )

    def __init__(
        self, field: Field, config: dict[str, object], scope: Scope, documented: str
    ) -> None:
        self.field = field
        self.documented = documented
        self.scope = scope
        self.type, metadata = annotated(field.annotation, scope)
        default = field.default
        if default is not None and is_field(default, scope):
            metadata, default = [*metadata, default], None
        self.metadata = read_metadata(metadata, scope)
        if field.is_open:
            self.metadata = replace(self.metadata, override={})
        if is_required_mark(default, scope):
            self.default = None
        else:
            self.default = default if default is not None else self.metadata.default
        self.required = (
            self.default is None and not self.metadata.has_factory and not field.conditional
        )
        self.name, self.is_named = _name(field.name, self.metadata, config)

    @property
    def description(self) -> str:
        """The description in `Field(…)`, in the string under it, or in its class's docstring."""
        return self.metadata.description or self.field.note or self.documented


def _name(name: str, metadata: Metadata, config: dict[str, object]) -> tuple[str, bool]:
    """Return a field's name in data, and whether that name is certain."""
    if config.get("validate_by_alias") is False:
        return name, True
    generator = config.get("alias_generator")
    yields = metadata.alias_yields and generator is not None
    if metadata.alias is not None and not yields:
        return metadata.alias, metadata.alias_is_known
    generated = _generated_alias(name, generator)
    return generated or name, generated is not None and metadata.alias_is_known


def declared_fields(found: ClassFound, scope: Scope) -> list[DeclaredField]:
    """Return the fields of a class with everything declared about them."""
    config = configuration(found, scope)
    scopes = scopes_of(found, scope)
    documented = field_descriptions(found, scope)
    return [
        DeclaredField(field, config, scopes[field.owner.node], documented.get(field.name, ""))
        for field in fields_of(found, scope)
    ]


def field_descriptions(found: ClassFound, scope: Scope) -> dict[str, str]:
    """Return the descriptions of fields in the docstrings of a class and its ancestors."""
    described: dict[str, str] = {}
    for ancestor in linearize(found, scope):
        described = parameter_descriptions(docstring(ancestor.node.body), of_class=True) | described
    return described


def typed_dict_fields(found: ClassFound, scope: Scope) -> list[DeclaredField]:
    """Return the fields of a `TypedDict`, each required as its class or its own type says."""
    fields = declared_fields(found, scope)
    for field in fields:
        total = all(
            constant(keyword.value, scope) is not False
            for keyword in field.field.owner.node.keywords
            if keyword.arg == "total"
        )
        field.required = _is_required(field, total)
    return fields


def _is_required(field: DeclaredField, total: bool) -> bool:
    node = field.type
    while isinstance(node, ast.Subscript):
        name = field.scope.qualified(node.value)
        if name in {"typing.Required", "typing.NotRequired"}:
            inner, metadata = annotated(node.slice, field.scope)
            if metadata:  # Required[Annotated[…]]: its metadata belongs to the field
                field.type, field.metadata = inner, read_metadata(metadata, field.scope)
            return name == "typing.Required"
        node = node.slice
    return total


def discriminator_values(node: ast.expr, scope: Scope, name: str) -> tuple[str, list[str]]:
    """Return the discriminator of a member of a union: its name in data, and its values."""
    node, _ = annotated(node, scope)
    found = scope.meaning(node.value if isinstance(node, ast.Subscript) else node)
    if not isinstance(found, ClassFound):
        return name, []
    key = (found.node, f"tag {name}")
    memo = scope.namespace.memo
    if key not in memo:
        fields = (it for it in declared_fields(found, scope) if it.field.name == name)
        memo[key] = next(((it.name, _tags(it)) for it in fields), (name, list[str]()))
    return cast("tuple[str, list[str]]", memo[key])


def _tags(field: DeclaredField) -> list[str]:
    """Return the values that a field can have; empty if one of them is unknown."""
    node, scope = field.type, field.scope
    if not field.is_named or field.metadata.override is not None:
        return []
    found = scope.meaning(node)
    if isinstance(found, Assigned):
        node, scope = found.value, scope.before(found.position)
    if isinstance(node, ast.Subscript):
        literal = scope.qualified(node.value) == "typing.Literal"
        values = [constant(arg, scope) for arg in subscript_args(node)] if literal else []
    else:
        enum = isinstance(found, ClassFound) and kind_of(found, scope) is Kind.ENUM
        values = (
            list(members(found, scope).values()) if isinstance(found, ClassFound) and enum else []
        )
    known = all(isinstance(value, str | int) for value in values)
    return [str(value) for value in values] if known else []


def _generated_alias(name: str, generator: object) -> str | None:
    """Apply one of pydantic's alias generators; the result of any other is unknown."""
    match generator:
        case None:
            return name
        case "pydantic.to_camel":
            if re.match("[a-z]+[A-Za-z0-9]*$", name) and not re.search(r"\d[a-z]", name):
                return name
            pascal = _pascal(name)
            return re.sub("(^_*[A-Z])", lambda found: found[1].lower(), pascal)
        case "pydantic.to_pascal":
            return _pascal(name)
        case "pydantic.to_snake":
            return _snake(name)
        case _:
            return None


def _pascal(name: str) -> str:
    return re.sub("([0-9A-Za-z])_(?=[0-9A-Z])", lambda found: found[1], name.title())


def _snake(name: str) -> str:
    for pattern in ("([A-Z]+)([A-Z][a-z])", "([a-z])([A-Z])", "([0-9])([A-Z])", "([a-z])([0-9])"):
        name = re.sub(pattern, lambda found: f"{found[1]}_{found[2]}", name)
    return name.replace("-", "_").lower()
