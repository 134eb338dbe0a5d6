"""The parameters of a tool, from its signature or from a `Params` class."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from toolscan._fields import (
    DeclaredField,
    declared_fields,
    field_descriptions,
    typed_dict_fields,
)
from toolscan._metadata import Metadata, annotated, is_field, read_metadata
from toolscan._models import Kind, kind_of, root_annotation
from toolscan._namespace import ClassFound, Scope
from toolscan._records import Parameter
from toolscan._sections import parameter_descriptions
from toolscan._source import parse_expression

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolscan._syntax import Function, ModuleText


class Argument(NamedTuple):
    """One argument in a signature."""

    name: str
    annotation: ast.expr | None
    default: ast.expr | None
    prefix: str = ""


class Described(NamedTuple):
    """An argument with everything declared about it."""

    type: ast.expr | None
    metadata: Metadata
    default: ast.expr | None
    required: bool


def describe_argument(argument: Argument, scope: Scope) -> Described:
    """Combine the declarations in an argument's annotation and default."""
    kind, nodes, default = argument.annotation, list[ast.expr](), argument.default
    if kind is not None:
        kind, nodes = annotated(kind, scope)
    if default is not None and is_field(default, scope):
        nodes, default = [*nodes, default], None
    metadata = read_metadata(nodes, scope)
    default = default if default is not None else metadata.default
    required = default is None and not metadata.has_factory and not argument.prefix
    return Described(kind, metadata, default, required)


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


def parameters(
    function: Function,
    held: ClassFound | None,
    scope: Scope,
    text: ModuleText,
    described: str,
) -> tuple[Parameter, ...]:
    """Return the parameters of an entry point.

    Args:
        function: The entry point.
        held: The class whose fields they are, from `params_class`.
        scope: Where its annotations are looked up.
        text: The text of its module.
        described: The docstrings whose Args sections describe the parameters.
    """
    sections = parameter_descriptions(described)
    if held is not None:
        fields = tuple(_from_field(field, text, sections) for field in declared_fields(held, scope))
        return fields or tuple(_from_root(held, scope, text, sections))
    found: list[Parameter] = []
    for argument in arguments(function):
        unpacked = unpacked_fields(argument, scope)
        found += [_from_field(field, text, sections) for field in unpacked]
        if not unpacked:
            found.append(_from_argument(argument, scope, text, sections))
    return tuple(found)


def unpacked_fields(argument: Argument, scope: Scope) -> list[DeclaredField]:
    """Return the keywords that `**options: Unpack[Options]` stands for; empty for any other."""
    node = argument.annotation if argument.prefix == "**" else None
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        node = parse_expression(node.value)
    if not isinstance(node, ast.Subscript) or scope.qualified(node.value) != "typing.Unpack":
        return []
    found = _class_in(node.slice, scope)
    is_known = found is not None and kind_of(found, scope) is Kind.TYPED_DICT
    return typed_dict_fields(found, scope) if found and is_known else []


def _from_root(
    held: ClassFound, scope: Scope, text: ModuleText, sections: dict[str, str]
) -> Iterator[Parameter]:
    """Yield the one field of `class Names(RootModel[list[str]])`."""
    if root := root_annotation(held, scope):
        said = field_descriptions(held, scope).get("root") or sections.get("root", "")
        yield Parameter(
            name="root", annotation=text.written(root[0]), required=True, description=said
        )


def _from_argument(
    argument: Argument, scope: Scope, text: ModuleText, sections: dict[str, str]
) -> Parameter:
    said = describe_argument(argument, scope)
    return Parameter(
        name=argument.prefix + argument.name,
        annotation=text.written(argument.annotation) if argument.annotation else "",
        required=said.required,
        default=text.written(said.default) if said.default is not None else None,
        description=said.metadata.description or sections.get(argument.name, ""),
        alias=said.metadata.alias if said.metadata.alias != argument.name else None,
    )


def _from_field(field: DeclaredField, text: ModuleText, sections: dict[str, str]) -> Parameter:
    name = field.field.name
    return Parameter(
        name=name,
        annotation=text.written(field.field.annotation),
        required=field.required,
        default=text.written(field.default) if field.default is not None else None,
        description=field.description or sections.get(name, ""),
        alias=field.name if field.name != name else None,
    )
