"""Classes as their source declares them: ancestors, kind, configuration, fields."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from toolscan._constants import constant
from toolscan._namespace import ClassFound, Scope
from toolscan._syntax import docstring, string_statement

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Field", "Kind", "configuration", "fields_of", "kind_of", "linearize", "subscript_args"]


class Kind(Enum):
    """What pydantic makes of a class."""

    MODEL = auto()
    ROOT_MODEL = auto()
    ENUM = auto()
    TYPED_DICT = auto()
    NAMED_TUPLE = auto()
    DATACLASS = auto()
    OTHER = auto()


_KINDS = {
    "pydantic.RootModel": Kind.ROOT_MODEL,
    "pydantic.BaseModel": Kind.MODEL,
    "pydantic_settings.BaseSettings": Kind.MODEL,
    "typing.TypedDict": Kind.TYPED_DICT,
    "typing.NamedTuple": Kind.NAMED_TUPLE,
} | {f"enum.{name}": Kind.ENUM for name in ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag")}
_DATACLASS = {"dataclasses.dataclass", "pydantic.dataclass"}
# A base class from anywhere else may be a model of another module; from these it is none.
_NO_MODELS = {"", "builtins", "typing", "abc", "enum", "collections", "pydantic", "collections.abc"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a class, before anything is made of it.

    Attributes:
        name: Its name in Python.
        annotation: Its annotation.
        default: The expression assigned to it.
        note: The string that stands under it.
        owner: The class that declares it.
    """

    name: str
    annotation: ast.expr
    default: ast.expr | None
    note: str
    owner: ClassFound


class Ancestor(NamedTuple):
    """A base class that another module defines, with its subscript: `RootModel[int]`."""

    name: str
    node: ast.expr
    scope: Scope


class _Bases(NamedTuple):
    known: list[ClassFound]
    others: list[Ancestor]


def _bases(found: ClassFound, scope: Scope) -> _Bases:
    cached = scope.namespace.bases.get(found.node)
    if isinstance(cached, _Bases):
        return cached
    known: list[ClassFound] = []
    others: list[Ancestor] = []
    # A base is evaluated before its class exists: the class's own name means an earlier one.
    outside = scope.before(found.position)
    for base in found.node.bases:
        target = base.value if isinstance(base, ast.Subscript) else base
        meaning = outside.meaning(target)
        if isinstance(meaning, ClassFound) and meaning.node is not found.node:
            known.append(meaning)
        else:
            others.append(Ancestor(outside.qualified(target), base, outside))
    scope.namespace.bases[found.node] = bases = _Bases(known, others)
    return bases


def linearize(found: ClassFound, scope: Scope) -> list[ClassFound]:
    """Give a class and its ancestors in this module in method resolution order (C3)."""
    orders = scope.namespace.orders
    if found.node not in orders:
        orders[found.node] = []  # in case it leads back here, which no Python would run
        orders[found.node] = _merge(found, scope)
    return orders[found.node]


def _merge(found: ClassFound, scope: Scope) -> list[ClassFound]:
    parents = _bases(found, scope).known
    if not parents:
        return [found]
    orders = [linearize(parent, scope) for parent in parents]
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


def others_of(found: ClassFound, scope: Scope) -> list[Ancestor]:
    """Give the ancestors of a class that other modules define."""
    return [other for own in linearize(found, scope) for other in _bases(own, scope).others]


def kind_of(found: ClassFound, scope: Scope) -> Kind:
    """Tell what pydantic makes of a class, as far as its own module shows."""
    others = others_of(found, scope)
    for other in others:
        if other.name in _KINDS:
            return _KINDS[other.name]
    for own in linearize(found, scope):
        for mark in own.node.decorator_list:
            target = mark.func if isinstance(mark, ast.Call) else mark
            if scope.before(own.position).qualified(target) in _DATACLASS:
                return Kind.DATACLASS
    if any(other.name.rpartition(".")[0] not in _NO_MODELS for other in others):
        return Kind.MODEL
    return Kind.OTHER


def root_annotation(found: ClassFound, scope: Scope) -> tuple[ast.expr, Scope] | None:
    """Give the type in `class Names(RootModel[list[str]])`."""
    for other in others_of(found, scope):
        if other.name == "pydantic.RootModel" and isinstance(other.node, ast.Subscript):
            return other.node.slice, other.scope
    return None


def subscript_args(node: ast.Subscript) -> list[ast.expr]:
    """Give what stands in the brackets of a subscript."""
    match node.slice:
        case ast.Tuple(elts=[_, *_] as several):
            return several
        case one:  # `tuple[()]` among them
            return [one]


def type_parameters(found: ClassFound, scope: Scope) -> list[str]:
    """Give the type variables of a generic class, in the order in which arguments fill them."""
    declared: list[ast.AST] = getattr(found.node, "type_params", [])
    if declared:
        return [str(getattr(param, "name", "")) for param in declared]
    for base in found.node.bases:
        if isinstance(base, ast.Subscript) and scope.qualified(base.value) == "typing.Generic":
            return [arg.id for arg in subscript_args(base) if isinstance(arg, ast.Name)]
    return []


def fields_of(found: ClassFound, scope: Scope) -> list[Field]:
    """Give the fields of a class in pydantic's order: those of its ancestors first."""
    fields: dict[str, Field] = {}
    for ancestor in reversed(linearize(found, scope)):
        for field in _own_fields(ancestor, scope.at(ancestor)):
            fields[field.name] = field
    return list(fields.values())


def _own_fields(found: ClassFound, scope: Scope) -> Iterator[Field]:
    body = found.node.body
    for index, node in enumerate(body):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=default):
                pass
            case _:
                continue
        if name.startswith("_") or name == "model_config":
            continue
        if _is_class_variable(annotation, default, scope):
            continue
        follows = body[index + 1 : index + 2]
        note = docstring(follows) if follows and string_statement(follows[0]) else ""
        yield Field(name=name, annotation=annotation, default=default, note=note, owner=found)


def _is_class_variable(annotation: ast.expr, default: ast.expr | None, scope: Scope) -> bool:
    while isinstance(annotation, ast.Subscript):
        annotation = annotation.value
    name = scope.qualified(annotation)
    # A constant with a value belongs to the class; without one it is a field.
    return name == "typing.ClassVar" or (name == "typing.Final" and default is not None)


def configuration(found: ClassFound, scope: Scope) -> dict[str, object]:
    """Give the model configuration, that of ancestors included, as far as it is constant."""
    config: dict[str, object] = {}
    for own in reversed(linearize(found, scope)):
        inside = scope.at(own)
        for name, value in [*_config_body(own.node), *_config_keywords(own.node)]:
            # Functions stay expressions: only their name says what they do.
            config[name] = inside.qualified(value) or constant(value, inside)
    return config


def _config_keywords(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    for keyword in node.keywords:
        if keyword.arg:
            yield keyword.arg, keyword.value


def _config_body(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    for statement in node.body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id="model_config")], value=value)
                | ast.AnnAssign(target=ast.Name(id="model_config"), value=value)
            ):
                yield from _config_items(value)
            case ast.ClassDef(name="Config", body=body):
                for inner in body:
                    match inner:
                        case ast.Assign(targets=[ast.Name(id=name)], value=value):
                            yield name, value
                        case _:
                            pass
            case _:
                pass


def _config_items(value: ast.expr | None) -> Iterator[tuple[str, ast.expr]]:
    match value:
        case ast.Call(keywords=keywords):
            for keyword in keywords:
                if keyword.arg:
                    yield keyword.arg, keyword.value
        case ast.Dict(keys=keys, values=values):
            for key, item in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, item
        case _:
            pass
