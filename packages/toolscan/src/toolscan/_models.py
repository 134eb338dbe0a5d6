"""Pydantic classes as their source declares them: bases, configuration, fields."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from toolscan._namespace import Assigned, ClassFound
from toolscan._syntax import docstring, string_statement

if TYPE_CHECKING:
    from toolscan._namespace import Namespace

__all__ = ["Field", "annotated_metadata", "field_calls", "is_model", "linearize", "model_fields"]

_MODEL_ROOTS = {"pydantic.BaseModel", "pydantic.RootModel", "pydantic_settings.BaseSettings"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a class, before anything is made of it.

    Attributes:
        name: Its name in Python.
        annotation: The annotation, `None` for a default given without one.
        default: The expression assigned to it.
        note: The string that stands under it.
        owner: The class that declares it.
    """

    name: str
    annotation: ast.expr
    default: ast.expr | None
    note: str
    owner: ClassFound


class _Bases(NamedTuple):
    known: list[ClassFound]
    external: list[str]


def bases_of(found: ClassFound, namespace: Namespace) -> _Bases:
    """Give the bases of a class: those of this module, and the qualified names of the others."""
    known: list[ClassFound] = []
    external: list[str] = []
    for base in found.node.bases:
        target = base.value if isinstance(base, ast.Subscript) else base
        match namespace.meaning(target, found.position):
            case ClassFound(node=node) as parent if node is not found.node:
                known.append(parent)
            case _:
                external.append(namespace.qualified(target, found.position))
    return _Bases(known, external)


def linearize(found: ClassFound, namespace: Namespace) -> list[ClassFound]:
    """Give a class and its ancestors in this module in method resolution order (C3)."""
    return _linearize(found, namespace, ())


def _linearize(
    found: ClassFound, namespace: Namespace, below: tuple[ast.ClassDef, ...]
) -> list[ClassFound]:
    if found.node in below:  # an impossible module, but one that parses
        return []
    parents = bases_of(found, namespace).known
    orders = [_linearize(parent, namespace, (*below, found.node)) for parent in parents]
    pending = [list(order) for order in [*orders, parents] if order]
    merged = [found]
    while pending:
        heads = [order[0] for order in pending]
        # Where no order is consistent Python refuses the class; any order will do for us.
        best = next(
            (head for head in heads if not any(head in order[1:] for order in pending)), heads[0]
        )
        merged.append(best)
        pending = [rest for order in pending if (rest := [it for it in order if it != best])]
    return merged


def externals(found: ClassFound, namespace: Namespace) -> set[str]:
    """Give the qualified names of all ancestors that other modules define."""
    return {
        name
        for ancestor in linearize(found, namespace)
        for name in bases_of(ancestor, namespace).external
    }


def is_model(found: ClassFound, namespace: Namespace) -> bool:
    """Tell whether a class is a pydantic model, as far as its own module shows."""
    return bool(externals(found, namespace) & _MODEL_ROOTS)


def model_fields(found: ClassFound, namespace: Namespace) -> list[Field]:
    """Give the fields of a model in pydantic's order: those of its ancestors first."""
    fields: dict[str, Field] = {}
    for ancestor in reversed(linearize(found, namespace)):
        for field in _own_fields(ancestor, namespace):
            fields[field.name] = field
    return list(fields.values())


def _own_fields(found: ClassFound, namespace: Namespace) -> list[Field]:
    fields: list[Field] = []
    body = found.node.body
    for index, node in enumerate(body):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        name = node.target.id
        if name.startswith("_") or name == "model_config":
            continue
        if _is_class_variable(node.annotation, namespace, found.position):
            continue
        note = string_statement(body[index + 1]) if index + 1 < len(body) else None
        fields.append(
            Field(
                name=name,
                annotation=node.annotation,
                default=node.value,
                note=docstring([body[index + 1]]) if note else "",
                owner=found,
            )
        )
    return fields


def _is_class_variable(annotation: ast.expr, namespace: Namespace, position: int) -> bool:
    if isinstance(annotation, ast.Subscript):
        annotation = annotation.value
    return namespace.qualified(annotation, position) == "typing.ClassVar"


def annotated_metadata(
    annotation: ast.expr, namespace: Namespace, position: int
) -> tuple[ast.expr, list[ast.expr]]:
    """Take `Annotated[T, …]` apart; any other annotation has no metadata."""
    metadata: list[ast.expr] = []
    while isinstance(annotation, ast.Subscript):
        if namespace.qualified(annotation.value, position) != "typing.Annotated":
            break
        if not isinstance(annotation.slice, ast.Tuple) or not annotation.slice.elts:
            break
        inner, *rest = annotation.slice.elts
        metadata = rest + metadata
        annotation = inner
    return annotation, metadata


def field_calls(field: Field, namespace: Namespace) -> list[ast.Call]:
    """Give the `Field(…)` calls that describe a field; a later one has precedence."""
    position = field.owner.position
    _, metadata = annotated_metadata(field.annotation, namespace, position)
    if field.default is not None:
        metadata = [*metadata, field.default]
    return [
        node
        for node in metadata
        if isinstance(node, ast.Call) and namespace.qualified(node.func, position) == "pydantic.Field"
    ]


def alias_target(meaning: object) -> ast.expr | None:
    """Give the expression behind a plain alias (`Ids = list[int]`)."""
    return meaning.value if isinstance(meaning, Assigned) else None
