"""What is declared about parameters and fields: types, `Field(…)`, `Annotated[…]`, defaults."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, cast

from toolscan._classes import (
    Field,
    Kind,
    configuration,
    fields_of,
    kind_of,
    root_annotation,
    scopes_of,
)
from toolscan._constants import UNKNOWN, constant
from toolscan._docstrings import parameter_descriptions
from toolscan._keywords import is_text, jsonable
from toolscan._namespace import Assigned, ClassFound, Scope, ancestry, subscript_args
from toolscan._records import Parameter
from toolscan._source import docstring, parse_expression

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toolscan._source import Function, ModuleText

_CONSTRAINTS = {"ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length", "pattern"}
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
        alias: Name in data; "" if it is that in Python, `None` if only running the module shows it.
        default: The default, as an expression.
        has_factory: Whether a function returns the default.
        discriminator: The field that distinguishes the members of a union.
        override: A schema that replaces the type's own.
        note: A text that is meant as a description, although pydantic ignores it.
    """

    constraints: dict[str, object] = field(default_factory=dict[str, object])
    annotations: dict[str, object] = field(default_factory=dict[str, object])
    alias: str | None = ""
    default: ast.expr | None = None
    has_factory: bool = False
    discriminator: str | None = None
    override: dict[str, object] | None = None
    note: str = ""

    @property
    def description(self) -> str:
        text = self.annotations.get("description")
        return inspect.cleandoc(text).strip() if isinstance(text, str) else self.note


_NOTHING = Metadata()


def is_field(node: ast.expr | None, scope: Scope) -> bool:
    return isinstance(node, ast.Call) and _names_field(scope.qualified(node.func))


def _names_field(name: str) -> bool:
    # Other packages re-export or wrap pydantic's: sqlmodel, langchain_core, pydantic.v1.
    return name in _FIELDS or name.endswith(".Field")


def _is_required_mark(node: ast.expr | None, scope: Scope) -> bool:
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
    default, alias = given.get("default"), _alias(given, scope)
    extra = read_extra(given["json_schema_extra"], scope) if "json_schema_extra" in given else {}
    if _is_required_mark(default, scope):
        default, result = None, replace(result, default=None, has_factory=False)
    return replace(
        result,
        constraints=result.constraints | read_constraints(given, scope),
        annotations=result.annotations
        | _annotations(given, scope)
        | {key: value for key, value in (extra or {}).items() if is_text(key)},
        override={} if extra is None else result.override,
        alias=result.alias if alias == "" else alias,
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
    values = {name: constant(it, scope) for name, it in given.items() if name in _CONSTRAINTS}
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
    return result


def read_extra(node: ast.expr, scope: Scope) -> dict[str, object] | None:
    """Return what `json_schema_extra` adds to a schema; `None` if it may change it at will.

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


def _alias(given: dict[str, ast.expr], scope: Scope) -> str | None:
    for node in (given[name] for name in ("validation_alias", "alias") if name in given):
        kind = scope.qualified(node.func) if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Call) and kind in {"pydantic.AliasChoices", "pydantic.AliasPath"}:
            choices = node.args if kind == "pydantic.AliasChoices" else []
            texts = (constant(choice, scope) for choice in choices)
            value = next((it for it in texts if isinstance(it, str)), None)
        else:
            value = constant(node, scope)
        if value is not None:
            return value if isinstance(value, str) and is_text(value) else None
    return ""


class Argument(NamedTuple):
    """One argument in a signature."""

    name: str
    annotation: ast.expr | None
    default: ast.expr | None
    prefix: str = ""


class Declared:
    """A parameter's or field's type, metadata and default, merged.

    Attributes:
        name: Name in Python.
        alias: Name in data; `None` if only running the module shows it.
        annotation: The annotation as written.
        type: The annotation without its metadata.
        description: The description in `Field(…)`, in the string under it, or in its class's
            docstring.
        scope: Where its names are looked up.
    """

    __slots__ = (
        *("alias", "annotation", "default", "description", "metadata", "name", "required"),
        *("scope", "type"),
    )

    def __init__(
        self,
        name: str,
        annotation: ast.expr | None,
        default: ast.expr | None,
        scope: Scope,
        described: str = "",
    ) -> None:
        self.name = name
        self.annotation = self.type = annotation
        self.scope = scope
        metadata: list[ast.expr] = []
        if annotation is not None:
            self.type, metadata = annotated(annotation, scope)
        if default is not None and is_field(default, scope):
            metadata, default = [*metadata, default], None
        self.metadata = read_metadata(metadata, scope)
        self.default = default if default is not None else self.metadata.default
        self.required = self.default is None and not self.metadata.has_factory
        self.alias = name if self.metadata.alias == "" else self.metadata.alias
        self.description = self.metadata.description or described


def declared_argument(argument: Argument, scope: Scope) -> Declared:
    name = argument.prefix + argument.name
    found = Declared(name, argument.annotation, argument.default, scope)
    if argument.prefix:
        found.required = False
    return found


def declared_fields(found: ClassFound, scope: Scope) -> list[Declared] | None:
    """Return the fields of a class; `None` if only running the module would show them all."""
    config = configuration(found, scope)
    if not ancestry(found, scope).is_certain or config.get("alias_generator") is not None:
        return None
    scopes = scopes_of(found, scope)
    documented = _field_descriptions(found, scope)
    is_typed_dict = kind_of(found, scope) is Kind.TYPED_DICT
    fields: list[Declared] = []
    for it in fields_of(found, scope):
        described = it.note or documented.get(it.name, "")
        field = Declared(it.name, it.annotation, it.default, scopes[it.owner.node], described)
        if it.is_open:
            field.metadata = replace(field.metadata, override={})
        if _is_required_mark(it.default, scope):
            field.default, field.required = None, not field.metadata.has_factory
        if config.get("validate_by_alias") is False:
            field.alias = it.name
        if is_typed_dict:
            field.required = _is_required(field, it, scope)
        elif it.conditional:
            field.required = False
        if field.alias is None:
            return None
        fields.append(field)
    return fields


def _field_descriptions(found: ClassFound, scope: Scope) -> dict[str, str]:
    described: dict[str, str] = {}
    for ancestor in ancestry(found, scope).classes:
        described = parameter_descriptions(docstring(ancestor.node.body), of_class=True) | described
    return described


def _is_required(field: Declared, written: Field, scope: Scope) -> bool:
    """Return whether a `TypedDict` needs a key, as its own type says, or the class."""
    node = field.type
    while isinstance(node, ast.Subscript):
        name = field.scope.qualified(node.value)
        if name in {"typing.Required", "typing.NotRequired"}:
            inner, metadata = annotated(node.slice, field.scope)
            if metadata:  # Required[Annotated[…]]: its metadata belongs to the field
                field.type, field.metadata = inner, read_metadata(metadata, field.scope)
                field.description = field.metadata.description or field.description
            return name == "typing.Required"
        node = node.slice
    return all(
        constant(keyword.value, scope) is not False
        for keyword in written.owner.node.keywords
        if keyword.arg == "total"
    )


def discriminator_values(node: ast.expr, scope: Scope, name: str) -> tuple[str, list[str]]:
    """Return the discriminator of a member of a union: its name in data, and its values."""
    node, _ = annotated(node, scope)
    found = scope.meaning(node.value if isinstance(node, ast.Subscript) else node)
    if not isinstance(found, ClassFound):
        return name, []
    key = (found.node, f"tag {name}")
    memo = scope.namespace.memo
    if key not in memo:
        fields = (it for it in declared_fields(found, scope) or () if it.name == name)
        memo[key] = next(((it.alias, _tags(it)) for it in fields), (name, list[str]()))
    return cast("tuple[str, list[str]]", memo[key])


def _tags(field: Declared) -> list[str]:
    """Return the values that a field of a `Literal` type can have; otherwise, an empty list."""
    node, scope = field.type, field.scope
    if not isinstance(node, ast.Subscript) or field.metadata.override is not None:
        return []
    is_literal = scope.qualified(node.value) == "typing.Literal"
    values = [constant(arg, scope) for arg in subscript_args(node)] if is_literal else []
    known = all(isinstance(value, str | int) for value in values)
    return [str(value) for value in values] if known else []


def arguments(function: Function) -> Iterator[Argument]:
    """Yield the arguments of a function in order, `*args` and `**kwargs` with their stars."""
    args = function.args
    positional = [*args.posonlyargs, *args.args]
    missing = len(positional) - len(args.defaults)
    for index, arg in enumerate(positional):
        default = args.defaults[index - missing] if index >= missing else None
        yield Argument(arg.arg, arg.annotation, default)
    if args.vararg:
        yield Argument(args.vararg.arg, args.vararg.annotation, None, "*")
    for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        yield Argument(arg.arg, arg.annotation, default)
    if args.kwarg:
        yield Argument(args.kwarg.arg, args.kwarg.annotation, None, "**")


def params_class(function: Function, scope: Scope) -> ClassFound | None:
    """Return the model whose fields are the tool's parameters.

    That is the class of the only argument, if the argument is called `params` or the class
    `Params`. Any other model is a single, structured parameter.
    """
    only = list(arguments(function))
    if len(only) != 1 or only[0].annotation is None or only[0].prefix:
        return None
    found = _class_in(only[0].annotation, scope)
    if found is None or "params" not in {only[0].name, found.node.name.lower()}:
        return None
    return found if kind_of(found, scope) in {Kind.MODEL, Kind.ROOT_MODEL} else None


def _class_in(node: ast.expr, scope: Scope) -> ClassFound | None:
    """Find the class in `Params`, `"Params"`, `Optional[Params]`, `Annotated[Params, …]`."""
    node, _ = annotated(node, scope)
    match node:
        case ast.Constant(value=str(text)):
            inner = parse_expression(text)
            quoted = inner is None or isinstance(inner, ast.Constant)
            return None if quoted or inner is None else _class_in(inner, scope)
        case ast.Subscript(value=value, slice=inner) if scope.qualified(value) == "typing.Optional":
            return _class_in(inner, scope)
        case ast.BinOp(op=ast.BitOr(), left=inner, right=ast.Constant(value=None)):
            return _class_in(inner, scope)
        case _:
            found = scope.meaning(node)
            return found if isinstance(found, ClassFound) else None


def unpacked_fields(argument: Argument, scope: Scope) -> list[Declared]:
    """Return the keywords that `**options: Unpack[Options]` stands for; empty for any other."""
    node = argument.annotation if argument.prefix == "**" else None
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        node = parse_expression(node.value)
    if not isinstance(node, ast.Subscript) or scope.qualified(node.value) != "typing.Unpack":
        return []
    found = _class_in(node.slice, scope)
    is_known = found is not None and kind_of(found, scope) is Kind.TYPED_DICT
    return declared_fields(found, scope) or [] if found and is_known else []


def parameters(
    function: Function, held: ClassFound | None, scope: Scope, text: ModuleText, described: str
) -> tuple[Parameter, ...]:
    """Return the parameters of an entry point.

    Args:
        function: The entry point.
        held: The class whose fields they are, from `params_class`.
        scope: Where its annotations are looked up.
        text: The text of its module.
        described: The docstrings whose Args sections describe the parameters.
    """
    found: list[Declared] = []
    if held is not None:
        found = declared_fields(held, scope) or []
        if not found and (root := root_annotation(held, scope)):
            # The one field of `class Names(RootModel[list[str]])`.
            described_root = _field_descriptions(held, scope).get("root", "")
            found = [Declared("root", root[0], None, root[1], described_root)]
    else:
        for argument in arguments(function):
            found += unpacked_fields(argument, scope) or [declared_argument(argument, scope)]
    sections = parameter_descriptions(described)
    return tuple(
        Parameter(
            name=it.name,
            annotation=text.written(it.annotation) if it.annotation else "",
            required=it.required,
            default=text.written(it.default) if it.default is not None else None,
            description=it.description or sections.get(it.name.lstrip("*"), ""),
            alias=it.alias if it.alias != it.name else None,
        )
        for it in found
    )
