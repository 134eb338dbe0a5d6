"""Classes as their source declares them: ancestors, kind, configuration, fields.

What only running the module would show, or what too few classes use, leaves a class open: a class
with two ancestors that share one, with several type arguments, or with an alias generator.
"""

from __future__ import annotations

import ast
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from toolscan._constants import UNKNOWN, constant
from toolscan._namespace import (
    Ancestor,
    Assigned,
    ClassFound,
    Scope,
    ancestry,
    bound_values,
    subscript_args,
)
from toolscan._source import Statement, docstring, parse_expression, top_level

if TYPE_CHECKING:
    from collections.abc import Iterator


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
_ATTRS = ("define", "frozen", "mutable", "s", "attrs", "dataclass")
_DATACLASS = {"dataclasses.dataclass", "pydantic.dataclass"} | {
    f"{module}.{name}" for module in ("attr", "attrs") for name in _ATTRS
}
_NOT_A_MODEL = ("Enum", "Flag", "Choices")
"""Name endings of enum classes in other packages."""
# Base classes from these modules are not models; those from others may be.
_NO_MODELS = {"", "builtins", "typing", "abc", "enum", "collections", "pydantic", "collections.abc"}
_OWN_SCHEMA = {
    "__get_pydantic_json_schema__",
    "__get_pydantic_core_schema__",
    "__modify_schema__",
    "model_json_schema",
}


_MAX_COMBINED = 10
"""How deeply configurations are combined from others."""


class Field(NamedTuple):
    """A field of a class, as written.

    Attributes:
        default: The expression assigned to it.
        note: The string below it.
        owner: The class that declares it.
        conditional: Whether it is under an `if`, so that it may be absent.
        is_open: Whether its type in data differs from its annotation.
    """

    name: str
    annotation: ast.expr
    default: ast.expr | None
    note: str
    owner: ClassFound
    conditional: bool = False
    is_open: bool = False


def kind_of(found: ClassFound, scope: Scope) -> Kind:
    """Return the kind of a class, as far as its own module shows it."""
    classes, others, _ = ancestry(found, scope)
    for other in others:
        if other.name in _KINDS:
            return _KINDS[other.name]
    if any(_is_dataclass(own, scope) for own in classes):
        return Kind.DATACLASS
    return Kind.MODEL if _is_model_elsewhere(found, others) else Kind.OTHER


def _is_dataclass(found: ClassFound, scope: Scope) -> bool:
    outside = scope.before(found.position)
    marks = (it.func if isinstance(it, ast.Call) else it for it in found.node.decorator_list)
    return any(outside.qualified(mark) in _DATACLASS for mark in marks)


def _is_model_elsewhere(found: ClassFound, others: list[Ancestor]) -> bool:
    """Guess whether a base class from another module is a model."""
    unknown = [other.name for other in others if _is_unknown(other)]
    if not unknown or any(name.endswith(_NOT_A_MODEL) for name in unknown):
        return False
    # Pydantic rejects attributes without annotations, so a class with only such attributes is not a
    # model.
    assigns = [node for node in found.node.body if isinstance(node, ast.Assign)]
    names = [it.id for node in assigns for it in node.targets if isinstance(it, ast.Name)]
    plain = any(name != "model_config" and name[0] != "_" for name in names)
    return not plain or any(isinstance(node, ast.AnnAssign) for node in found.node.body)


def _is_unknown(other: Ancestor) -> bool:
    return other.name not in _KINDS and other.name.rpartition(".")[0] not in _NO_MODELS


def has_unknown_parent(found: ClassFound, scope: Scope) -> bool:
    """Return whether a class may inherit fields that its own module does not show."""
    return any(_is_unknown(other) or not other.name for other in ancestry(found, scope).others)


def writes_own_schema(found: ClassFound, scope: Scope) -> bool:
    return any(
        isinstance(node, ast.FunctionDef) and node.name in _OWN_SCHEMA
        for own in ancestry(found, scope).classes
        for node in own.node.body
    )


def root_annotation(found: ClassFound, scope: Scope) -> tuple[ast.expr, Scope] | None:
    """Return `list[str]` for `class Names(RootModel[list[str]])`."""
    inside = scopes_of(found, scope)
    for own in inside:
        for base in own.bases:
            if isinstance(base, ast.Subscript):
                outside = inside[own].before(inside[own].position)
                if outside.qualified(base.value) == "pydantic.RootModel":
                    return base.slice, outside
    return None


def scopes_of(found: ClassFound, scope: Scope) -> dict[ast.ClassDef, Scope]:
    """Return the scopes of a class and its ancestors, each with its own type variable.

    In `class Users(Page[User])`, the variable of `Page` stands for `User`.
    """
    scopes = {found.node: scope.at(found)}
    for own in ancestry(found, scope).classes:
        inside = scopes.setdefault(own.node, scope.at(own)._replace(variables={}))
        outside = inside.before(own.position)
        for base in own.node.bases:
            if isinstance(base, ast.Subscript):
                parent = outside.meaning(base.value)
                if isinstance(parent, ClassFound) and parent.node not in scopes:
                    filled = filled_variable(parent, subscript_args(base), outside) or {}
                    scopes[parent.node] = scope.at(parent)._replace(variables=filled)
    return scopes


def filled_variable(
    found: ClassFound, args: list[ast.expr], scope: Scope
) -> dict[str, tuple[ast.expr, Scope]] | None:
    """Return what the type variable of a generic class stands for; `None` if it has several."""
    if not args:
        return {}
    names = _type_parameters(found, scope)
    return {names[0]: (args[0], scope)} if len(names) == len(args) == 1 else None


def _type_parameters(found: ClassFound, scope: Scope) -> list[str]:
    declared: list[ast.AST] = getattr(found.node, "type_params", [])
    if declared:
        return [str(getattr(param, "name", "")) for param in declared]
    subscripts = [base for base in found.node.bases if isinstance(base, ast.Subscript)]
    for base in subscripts:
        if scope.qualified(base.value) in {"typing.Generic", "typing.Protocol"}:
            return [arg.id for arg in subscript_args(base) if isinstance(arg, ast.Name)]
    outside = scope.before(found.position)
    return list(dict.fromkeys(it for base in subscripts for it in free_variables(base, outside)))


def free_variables(node: ast.expr, scope: Scope) -> list[str]:
    """Return the type variables in an expression, in the order of their first use."""
    names: dict[str, None] = {}
    for part in ast.walk(node):
        found = scope.lookup(part) if isinstance(part, ast.Name) else None
        if isinstance(part, ast.Name) and isinstance(found, Assigned):
            value = found.value
            if isinstance(value, ast.Call) and scope.qualified(value.func) == "typing.TypeVar":
                names[part.id] = None
    return list(names)


def configuration(found: ClassFound, scope: Scope) -> dict[str, object]:
    """Return the constant part of a model's configuration, including that of its base classes.

    `json_schema_extra` stays an expression in its scope.
    """
    config: dict[str, object] = {}
    for own in reversed(ancestry(found, scope).classes):
        for name, value, inside in _settings(own.node, scope.at(own)):
            if name == "json_schema_extra":
                config[name] = (value, inside)
            else:
                # Functions stay names, because only these show what they do.
                config[name] = inside.qualified(value) or constant(value, inside)
    return config


_Setting = tuple[str, ast.expr, Scope]


def _settings(node: ast.ClassDef, scope: Scope) -> Iterator[_Setting]:
    for statement in node.body:
        if isinstance(statement, ast.Expr):
            continue  # a docstring of the class or of a field, the most common statement
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id="model_config")], value=value)
                | ast.AnnAssign(target=ast.Name(id="model_config"), value=ast.expr() as value)
            ):
                yield from _items(value, scope)
            case ast.ClassDef(name="Config", body=body):
                for name, value in (it for inner in body for it in bound_values(inner)):
                    yield name, value or ast.Constant(...), scope
            case _:
                pass
    yield from _keywords(node.keywords, scope)


def _items(node: ast.expr, scope: Scope, depth: int = 0) -> Iterator[_Setting]:
    """Yield the settings in an expression; if some are unknown, any could be set."""
    match node:
        case ast.Call(func=func, args=[], keywords=keywords) if scope.qualified(
            func
        ) == "builtins.dict" or scope.qualified(func).endswith("ConfigDict"):
            yield from _keywords(keywords, scope, depth)
        case ast.Dict(keys=keys, values=values):
            for key, item in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, item, scope
                else:
                    unknown = ast.Constant(...)
                    yield from _items(unknown if key else item, scope, depth + 1)
        case ast.BinOp(op=ast.BitOr(), left=left, right=right) if depth < _MAX_COMBINED:
            yield from _items(left, scope, depth + 1)
            yield from _items(right, scope, depth + 1)
        case ast.Name() | ast.Attribute() if depth < _MAX_COMBINED and isinstance(
            found := scope.meaning(node), Assigned
        ):
            yield from _items(found.value, scope.before(found.position), depth + 1)
        case _:
            for name in ("alias_generator", "extra"):
                yield name, ast.Constant(...), scope


def _keywords(keywords: list[ast.keyword], scope: Scope, depth: int = 0) -> Iterator[_Setting]:
    for keyword in keywords:
        if keyword.arg:
            yield keyword.arg, keyword.value, scope
        else:
            yield from _items(keyword.value, scope, depth + 1)


def fields_of(found: ClassFound, scope: Scope) -> list[Field]:
    kind = kind_of(found, scope)
    fields: dict[str, Field] = {}
    for ancestor in reversed(ancestry(found, scope).classes):
        if kind is Kind.DATACLASS and not _is_dataclass(ancestor, scope):
            continue  # its annotations are not fields
        replaced = _replaced(ancestor, scope)
        own: dict[str, Field] = {}
        statements = top_level(ancestor.node.body)
        inside = scope.at(ancestor)
        for index, (node, conditional, _) in enumerate(statements):
            if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
                continue
            name = node.target.id
            if _is_class_variable(node.annotation, node.value, inside):
                if not conditional:
                    fields.pop(name, None)
            elif name != "model_config" and (
                name[0] != "_" or kind not in {Kind.MODEL, Kind.ROOT_MODEL}
            ):
                # Only running the module would show which declaration counts.
                twice = name in own or (conditional and name in fields)
                note = _note(statements[index + 1 : index + 2])
                own[name] = Field(
                    name, node.annotation, node.value, note, ancestor, conditional, twice
                )
        fields |= own
        for name in fields.keys() if "*" in replaced else fields.keys() & replaced:
            fields[name] = fields[name]._replace(is_open=True)
    return list(fields.values())


def _replaced(found: ClassFound, scope: Scope) -> set[str]:
    """Return the fields whose type in data depends on a validator, as with `mode="plain"`."""
    names: set[str] = set()
    outside = scope.before(found.position)
    functions = (node for node in found.node.body if isinstance(node, ast.FunctionDef))
    for mark in (mark for node in functions for mark in node.decorator_list):
        if not isinstance(mark, ast.Call):
            continue
        given = {keyword.arg: keyword.value for keyword in mark.keywords}
        mode = constant(given["mode"], outside) if "mode" in given else "after"
        deciding = mode in ("plain", UNKNOWN) or "json_schema_input_type" in given
        if deciding and outside.qualified(mark.func).endswith(".field_validator"):
            fields = [constant(arg, outside) for arg in mark.args]
            names |= {name if isinstance(name, str) else "*" for name in fields}
    return names


def _note(follows: list[Statement]) -> str:
    return docstring([statement.node for statement in follows])


def _is_class_variable(annotation: ast.expr, default: ast.expr | None, scope: Scope) -> bool:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = parse_expression(annotation.value) or annotation
    while isinstance(annotation, ast.Subscript):
        annotation = annotation.value
    name = scope.qualified(annotation)
    # A `Final` with a value is a class variable; one without is a field.
    return name in {"typing.ClassVar", "dataclasses.KW_ONLY"} or (
        name == "typing.Final" and default is not None
    )
