"""Classes as their source declares them: ancestors, kind, fields."""

from __future__ import annotations

import ast
from collections import Counter
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from toolscan._constants import UNKNOWN, constant
from toolscan._namespace import Assigned, ClassFound, External, Scope
from toolscan._source import parse_expression
from toolscan._syntax import Statement, docstring, top_level

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
# Base classes from these modules are not models; those from others may be.
_NOT_A_MODEL = ("Enum", "Flag", "Choices")
"""Name endings of enum classes in other packages."""
_MAX_BASES = 30
_MAX_ANCESTORS = 300
# A class with more of either is left open, because collecting its fields would take too long.
_NO_MODELS = {"", "builtins", "typing", "abc", "enum", "collections", "pydantic", "collections.abc"}


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


class Ancestor(NamedTuple):
    """A base class that another module defines, with its subscript: `RootModel[int]`."""

    name: str
    node: ast.expr
    position: int
    """Where it is looked up. A scope would form a cycle, which only the garbage collector frees."""


class _Bases(NamedTuple):
    known: list[ClassFound]
    others: list[Ancestor]


def _bases(found: ClassFound, scope: Scope) -> _Bases:
    cached = scope.namespace.bases.get(found.node)
    if isinstance(cached, _Bases):
        return cached
    known: list[ClassFound] = []
    others: list[Ancestor] = []
    # A base is evaluated before its class exists, so the class's own name means an earlier class.
    outside = Scope(scope.namespace, found.position, None, scope.lazy)
    for base in found.node.bases:
        target = base.value if isinstance(base, ast.Subscript) else base
        meaning = outside.meaning(target)
        if isinstance(meaning, ClassFound) and meaning.node is not found.node:
            known.append(meaning)
        else:
            name = meaning.name if isinstance(meaning, External) else ""
            others.append(Ancestor(name, base, found.position))
    scope.namespace.bases[found.node] = bases = _Bases(known, others)
    return bases


def linearize(found: ClassFound, scope: Scope) -> list[ClassFound]:
    """Return a class and its ancestors in this module in method resolution order (C3).

    The list is empty if there are too many.
    """
    orders = scope.namespace.orders
    if found.node in orders:
        return orders[found.node]
    opened: set[ast.ClassDef] = set()
    pending = [found]
    while pending:  # not recursive, because a chain of base classes may be a thousand long
        own = pending[-1]
        missing = [it for it in _bases(own, scope).known if it.node not in orders]
        if own.node in orders:
            pending.pop()
        elif missing and own.node not in opened:
            opened.add(own.node)
            pending += missing
        else:
            orders[own.node] = _merge(own, scope)
    return orders[found.node]


def _merge(found: ClassFound, scope: Scope) -> list[ClassFound]:
    orders_of = scope.namespace.orders
    # A parent without an order refers back to this class, which would fail in Python.
    parents = [it for it in _bases(found, scope).known if it.node in orders_of]
    if not parents:
        return [found]
    orders = [orders_of[parent.node] for parent in parents]
    if len(parents) > _MAX_BASES or not all(orders):
        return []
    pending = [order for order in [*orders, parents] if order]
    # How many classes must precede each class; one with 0 comes next.
    behind = Counter(it.node for order in pending for it in order[1:])
    places = [0] * len(pending)
    merged = [found]
    while heads := [
        order[at] for order, at in zip(pending, places, strict=True) if at < len(order)
    ]:
        # If no order is consistent, the class would fail in Python, so any order will do.
        best = next((head for head in heads if not behind[head.node]), heads[0])
        merged.append(best)
        if len(merged) > _MAX_ANCESTORS:
            return []
        for index, order in enumerate(pending):
            at = places[index]
            if at < len(order) and order[at].node is best.node:
                places[index] = at + 1
                if at + 1 < len(order):
                    behind[order[at + 1].node] -= 1
    return merged


def others_of(found: ClassFound, scope: Scope) -> list[Ancestor]:
    """Return a class's ancestors that other modules define."""
    return [other for own in linearize(found, scope) for other in _bases(own, scope).others]


def kind_of(found: ClassFound, scope: Scope) -> Kind:
    """Return the kind of a class, as far as its own module shows it."""
    others = others_of(found, scope)
    for other in others:
        if other.name in _KINDS:
            return _KINDS[other.name]
    for own in linearize(found, scope):
        for mark in own.node.decorator_list:
            target = mark.func if isinstance(mark, ast.Call) else mark
            if scope.before(own.position).qualified(target) in _DATACLASS:
                return Kind.DATACLASS
    return Kind.MODEL if _is_model_elsewhere(found, others) else Kind.OTHER


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
    return any(_is_unknown(other) or not other.name for other in others_of(found, scope))


_OWN_SCHEMA = {
    "__get_pydantic_json_schema__",
    "__get_pydantic_core_schema__",
    "__modify_schema__",
    "model_json_schema",
}


def writes_own_schema(found: ClassFound, scope: Scope) -> bool:
    """Return whether a class has a method that changes its schema in pydantic."""
    return any(
        isinstance(node, ast.FunctionDef) and node.name in _OWN_SCHEMA
        for own in linearize(found, scope)
        for node in own.node.body
    )


def root_annotation(found: ClassFound, scope: Scope) -> tuple[ast.expr, Scope] | None:
    """Return `list[str]` for `class Names(RootModel[list[str]])`."""
    inside = scopes_of(found, scope)
    for own in linearize(found, scope):
        for other in _bases(own, scope).others:
            if other.name == "pydantic.RootModel" and isinstance(other.node, ast.Subscript):
                variables = inside[own.node].variables
                outside = scope.before(other.position)
                return other.node.slice, outside._replace(variables=variables)
    return None


def scopes_of(found: ClassFound, scope: Scope) -> dict[ast.ClassDef, Scope]:
    """Return the scopes of a class and its ancestors, each with its own type variables.

    In `class Users(Page[User])`, the variable of `Page` stands for `User`.
    """
    scopes = {found.node: scope.at(found)}
    for own in linearize(found, scope):
        inside = scopes.setdefault(own.node, scope.at(own)._replace(variables={}))
        outside = inside.before(own.position)
        for base in own.node.bases:
            if not isinstance(base, ast.Subscript):
                continue
            parent = outside.meaning(base.value)
            if isinstance(parent, ClassFound) and parent.node not in scopes:
                filled = filled_variables(parent, subscript_args(base), outside)
                scopes[parent.node] = scope.at(parent)._replace(variables=filled)
    return scopes


def filled_variables(
    found: ClassFound, args: list[ast.expr], scope: Scope
) -> dict[str, tuple[ast.expr, Scope]]:
    """Return what the type variables of a generic class stand for, given its arguments."""
    names = type_parameters(found, scope)
    return {name: (arg, scope) for name, arg in zip(names, args, strict=False)}


def subscript_args(node: ast.Subscript) -> list[ast.expr]:
    """Return the contents of the brackets of a subscript."""
    match node.slice:
        case ast.Tuple(elts=[_, *_] as several):
            return several
        case one:  # includes `tuple[()]`
            return [one]


def type_parameters(found: ClassFound, scope: Scope) -> list[str]:
    """Return the type variables of a generic class, in the order of its arguments."""
    declared: list[ast.AST] = getattr(found.node, "type_params", [])
    if declared:
        return [str(getattr(param, "name", "")) for param in declared]
    subscripts = [base for base in found.node.bases if isinstance(base, ast.Subscript)]
    for base in subscripts:
        if scope.qualified(base.value) in {"typing.Generic", "typing.Protocol"}:
            return [arg.id for arg in subscript_args(base) if isinstance(arg, ast.Name)]
    outside = scope.before(found.position)
    names: dict[str, None] = {}
    for base in subscripts:
        for part in ast.walk(base.slice):
            if isinstance(part, ast.Name) and _is_type_variable(part, outside):
                names[part.id] = None
    return list(names)


def _is_type_variable(node: ast.Name, scope: Scope) -> bool:
    found = scope.lookup(node)
    return (
        isinstance(found, Assigned)
        and isinstance(found.value, ast.Call)
        and scope.qualified(found.value.func) == "typing.TypeVar"
    )


def fields_of(found: ClassFound, scope: Scope) -> list[Field]:
    """Return the fields of a class in pydantic's order: those of its ancestors first."""
    kind = kind_of(found, scope)
    fields: dict[str, Field] = {}
    for ancestor in reversed(linearize(found, scope)):
        if kind is Kind.DATACLASS and not _is_dataclass(ancestor, scope):
            continue  # its annotations are not fields
        replaced = _replaced(ancestor, scope)
        own: dict[str, Field] = {}
        for field in _own_fields(ancestor, scope.at(ancestor), kind):
            twice = field.name in own or (field.conditional and field.name in fields)
            changed = field.name in replaced or "*" in replaced
            own[field.name] = field._replace(is_open=True) if twice or changed else field
        if fields:
            for name in _class_variables(ancestor, scope.at(ancestor)):
                fields.pop(name, None)
        for name in fields.keys() & replaced:
            fields[name] = fields[name]._replace(is_open=True)
        if "*" in replaced:
            fields = {name: field._replace(is_open=True) for name, field in fields.items()}
        fields |= own
    return list(fields.values())


def _is_dataclass(found: ClassFound, scope: Scope) -> bool:
    outside = scope.before(found.position)
    marks = (it.func if isinstance(it, ast.Call) else it for it in found.node.decorator_list)
    return any(outside.qualified(mark) in _DATACLASS for mark in marks)


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


def _own_fields(found: ClassFound, scope: Scope, kind: Kind) -> Iterator[Field]:
    statements = top_level(found.node.body)
    private = kind in {Kind.MODEL, Kind.ROOT_MODEL}
    for index, statement in enumerate(statements):
        node = statement.node
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        name = node.target.id
        if name == "model_config" or (name.startswith("_") and private):
            continue
        if _is_class_variable(node.annotation, node.value, scope):
            continue
        yield Field(
            name=name,
            annotation=node.annotation,
            default=node.value,
            note=_note(statements[index + 1 : index + 2]),
            owner=found,
            conditional=statement.conditional,
        )


def _note(follows: list[Statement]) -> str:
    """Return the string below a field."""
    return docstring([statement.node for statement in follows])


def _class_variables(found: ClassFound, scope: Scope) -> Iterator[str]:
    for node in found.node.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=default):
                if _is_class_variable(annotation, default, scope):
                    yield name
            case _:
                pass


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
