"""Declarations in addition to a type: `Field(…)`, `Annotated[…]`, constraints."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from toolscan._constants import UNKNOWN, constant
from toolscan._keywords import is_text, jsonable
from toolscan._namespace import Assigned, Scope

if TYPE_CHECKING:
    from collections.abc import Iterable


CONSTRAINTS = frozenset(
    {"ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length", "pattern"}
)
_FIELDS = {"dataclasses.field", "attrs.field", "attr.field", "attr.ib", "attr.attrib"}
_MAX_NAMES = 20
_REQUIRED = {"builtins.Ellipsis", "pydantic_core.PydanticUndefined"}
# The meaning of positional arguments of annotated_types' classes.
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
    """The content of `Field(…)` and of the metadata in `Annotated[…]`; later ones have precedence.

    Attributes:
        constraints: Bounds on the value, by pydantic's name for them.
        annotations: Keywords of JSON Schema that describe, but do not restrict.
        alias: Name in data.
        alias_is_known: Whether the name in data, if there is one, is a constant.
        alias_yields: Whether a generated alias has precedence over the declared one.
        default: The default, as an expression.
        has_factory: Whether a function returns the default.
        discriminator: The field that distinguishes the members of a union.
        override: A schema that replaces the type's own.
        note: A text that is meant as a description, although pydantic ignores it.
    """

    constraints: dict[str, object] = field(default_factory=dict[str, object])
    annotations: dict[str, object] = field(default_factory=dict[str, object])
    alias: str | None = None
    alias_is_known: bool = True
    alias_yields: bool = False
    default: ast.expr | None = None
    has_factory: bool = False
    discriminator: str | None = None
    override: dict[str, object] | None = None
    note: str = ""

    @property
    def description(self) -> str:
        """The description; "" if there is none."""
        text = self.annotations.get("description")
        return inspect.cleandoc(text).strip() if isinstance(text, str) else self.note


_NOTHING = Metadata()


def is_field(node: ast.expr | None, scope: Scope) -> bool:
    """Return whether an expression is a `Field(…)` call."""
    return isinstance(node, ast.Call) and _names_field(scope.qualified(node.func))


def _names_field(name: str) -> bool:
    # Other packages re-export or wrap pydantic's: sqlmodel, langchain_core, pydantic.v1.
    return name in _FIELDS or name.endswith(".Field")


def is_required_mark(node: ast.expr | None, scope: Scope) -> bool:
    """Return whether a default is `...`, which stands for no default."""
    if isinstance(node, ast.Name | ast.Attribute):
        return scope.qualified(node) in _REQUIRED
    return isinstance(node, ast.Constant) and node.value is Ellipsis


def annotated(node: ast.expr, scope: Scope) -> tuple[ast.expr, list[ast.expr]]:
    """Split `Annotated[T, …]`, or an alias of it, into type and metadata; others have none."""
    metadata: list[ast.expr] = []
    for _ in range(_MAX_NAMES):
        if isinstance(node, ast.Name | ast.Attribute):
            node = _annotated_alias(node, scope) or node
        if not _is_annotated(node, scope):
            break
        assert isinstance(node, ast.Subscript)  # noqa: S101  (so `_is_annotated` says)
        if not isinstance(node.slice, ast.Tuple) or not node.slice.elts:
            break
        node, *rest = node.slice.elts
        metadata = rest + metadata
    return node, metadata


def _is_annotated(node: ast.expr, scope: Scope) -> bool:
    return isinstance(node, ast.Subscript) and scope.qualified(node.value) == "typing.Annotated"


def _annotated_alias(node: ast.Name | ast.Attribute, scope: Scope) -> ast.expr | None:
    """Return the `Annotated[T, …]` that a name stands for, if it means the same where used."""
    if isinstance(node, ast.Name) and node.id in scope.variables:
        return None
    alias = scope.meaning(node)
    if not isinstance(alias, Assigned) or alias.is_type_statement:
        return None
    there = scope.before(alias.position)
    if not _is_annotated(alias.value, there):
        return None
    names = [part for part in ast.walk(alias.value) if isinstance(part, ast.Name)]
    same = all(scope.lookup(name) == there.lookup(name) for name in names)
    return alias.value if same else None


def read_metadata(nodes: Iterable[ast.expr], scope: Scope) -> Metadata:
    """Merge metadata expressions."""
    result = _NOTHING
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
    if _names_field(name):
        if call.args:
            given["default"] = call.args[0]
        if _unpacks(call):
            # Unpacked arguments may contain anything, even a default.
            result = replace(result, override={}, has_factory=True)
        return _read_field(result, given, scope)
    if name == "pydantic.StringConstraints" or (
        module == "annotated_types" and short in _ANNOTATED_TYPES
    ):
        given |= dict(zip(_ANNOTATED_TYPES.get(short, ()), call.args, strict=False))
        return replace(result, constraints=result.constraints | read_constraints(given, scope))
    first = constant(call.args[0], scope) if call.args else UNKNOWN
    if name == "pydantic.WithJsonSchema":
        return _read_override(result, call, given, scope)
    if name == "pydantic.PlainValidator" or "json_schema_input_type" in given:
        return replace(result, override={})
    if name == "pydantic.Discriminator" and isinstance(first, str) and is_text(first):
        return replace(result, discriminator=first)
    if name == "typing.Doc" and isinstance(first, str):
        return replace(result, note=inspect.cleandoc(first).strip())
    return result


def _unpacks(call: ast.Call) -> bool:
    return any(keyword.arg is None for keyword in call.keywords)


def _read_override(
    result: Metadata, call: ast.Call, given: dict[str, ast.expr], scope: Scope
) -> Metadata:
    mode = constant(given["mode"], scope) if "mode" in given else None
    if mode == "serialization":
        return result
    node = call.args[0] if call.args else given.get("json_schema")
    schema = jsonable(constant(node, scope)) if node is not None else UNKNOWN
    known = isinstance(schema, dict) and mode in (None, "validation")
    return replace(result, override=cast("dict[str, object]", schema) if known else {})


def _read_field(result: Metadata, given: dict[str, ast.expr], scope: Scope) -> Metadata:
    discriminator = constant(given["discriminator"], scope) if "discriminator" in given else None
    default = given.get("default")
    if is_required_mark(default, scope):
        default, result = None, replace(result, default=None, has_factory=False)
    return replace(
        result,
        constraints=result.constraints | read_constraints(given, scope),
        annotations=result.annotations | _annotations(given, scope),
        override={} if _is_rewritten(given, scope) else result.override,
        alias=_alias(given, scope) or result.alias,
        alias_is_known=result.alias_is_known and _alias_is_known(given, scope),
        alias_yields=result.alias_yields or _alias_yields(given, scope),
        default=default if default is not None else result.default,
        has_factory=bool(given.keys() & {"default_factory", "factory"})
        or (result.has_factory and default is None),
        discriminator=discriminator if isinstance(discriminator, str) else result.discriminator,
        note=_note(given, scope) or result.note,
    )


def _note(given: dict[str, ast.expr], scope: Scope) -> str:
    """Return the description in `field(doc=…)` or `field(metadata={"description": …})`."""
    text = constant(given["doc"], scope) if "doc" in given else None
    more = constant(given["metadata"], scope) if "metadata" in given else None
    if isinstance(more, dict):
        items = cast("dict[object, object]", more)
        text = next((items[key] for key in ("description", "doc", "help") if key in items), text)
    return inspect.cleandoc(text).strip() if isinstance(text, str) else ""


def read_constraints(given: dict[str, ast.expr], scope: Scope) -> dict[str, object]:
    """Return the constant constraints among keyword arguments."""
    values = {name: constant(given[name], scope) for name in CONSTRAINTS & given.keys()}
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, int | float) or (isinstance(value, str) and is_text(value))
    }


def _annotations(given: dict[str, ast.expr], scope: Scope) -> dict[str, object]:
    result: dict[str, object] = {}
    for name in ("title", "description", "examples"):
        if name in given and (value := constant(given[name], scope)) not in (UNKNOWN, None):
            result[name] = value
    if "deprecated" in given and constant(given["deprecated"], scope):
        result["deprecated"] = True
    if "json_schema_extra" in given:
        result |= read_extra(given["json_schema_extra"], scope) or {}
    return {key: value for key, value in result.items() if is_text(key)}


def read_extra(node: ast.expr, scope: Scope) -> dict[str, object] | None:
    """Return what `json_schema_extra` adds to a schema; `None` if it may change the schema at will.

    Values that only running the module can show are `UNKNOWN`.
    """
    if isinstance(node, ast.Dict):
        keys = [UNKNOWN if key is None else constant(key, scope) for key in node.keys]
        values = [jsonable(constant(value, scope)) for value in node.values]
        pairs = zip(keys, values, strict=True)
        known = {key: value for key, value in pairs if isinstance(key, str)}
        return known if len(known) == len(set(map(id, node.values))) else None
    value = constant(node, scope)
    if value is None:
        return {}
    encoded = jsonable(value)
    return cast("dict[str, object]", encoded) if isinstance(encoded, dict) else None


def _is_rewritten(given: dict[str, ast.expr], scope: Scope) -> bool:
    extra = given.get("json_schema_extra")
    return extra is not None and read_extra(extra, scope) is None


def _alias_yields(given: dict[str, ast.expr], scope: Scope) -> bool:
    return "alias_priority" in given and constant(given["alias_priority"], scope) == 1


def _alias_is_known(given: dict[str, ast.expr], scope: Scope) -> bool:
    for name in ("validation_alias", "alias"):
        node = given.get(name)
        if node is None or isinstance(node, ast.Call):  # the kinds of alias of pydantic
            continue
        value = constant(node, scope)
        return value is None or (isinstance(value, str) and is_text(value))
    return True


def _alias(given: dict[str, ast.expr], scope: Scope) -> str | None:
    for name in ("validation_alias", "alias"):
        node = given.get(name)
        if isinstance(node, ast.Call) and scope.qualified(node.func) == "pydantic.AliasChoices":
            choices = [constant(arg, scope) for arg in node.args]
            return next((it for it in choices if isinstance(it, str) and is_text(it)), None)
        value = constant(node, scope) if node is not None else None
        if isinstance(value, str) and is_text(value):
            return value
    return None
