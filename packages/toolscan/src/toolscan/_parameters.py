"""The parameters of a tool, from its signature or from the class that stands for it."""

from __future__ import annotations

import ast
import inspect
from typing import TYPE_CHECKING, NamedTuple

from toolscan._constants import UNKNOWN, constant
from toolscan._docstrings import parameter_descriptions
from toolscan._models import annotated_metadata, field_calls, is_model, model_fields
from toolscan._namespace import ClassFound
from toolscan._records import Parameter
from toolscan._syntax import docstring

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolscan._models import Field
    from toolscan._namespace import Namespace
    from toolscan._syntax import Function, ModuleText

__all__ = ["Argument", "arguments", "parameters", "params_class"]


class Argument(NamedTuple):
    """One argument in a signature."""

    name: str
    annotation: ast.expr | None
    default: ast.expr | None
    prefix: str = ""

    @property
    def required(self) -> bool:
        """Whether a call must give it."""
        return self.default is None and not self.prefix


def arguments(function: Function) -> Iterator[Argument]:
    """Give the arguments of a function in order; `*args` and `**kwargs` with their stars."""
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


def params_class(function: Function, namespace: Namespace, position: int) -> ClassFound | None:
    """Give the model whose fields are the tool's parameters.

    That is the case where the only argument is called `params` or its class is called `Params`;
    any other model is one parameter with a structure of its own.
    """
    only = list(arguments(function))
    if len(only) != 1 or only[0].annotation is None:
        return None
    found = _class_in(only[0].annotation, namespace, position)
    if found is None or "params" not in {only[0].name, found.node.name.lower()}:
        return None
    return found if is_model(found, namespace) else None


def _class_in(annotation: ast.expr, namespace: Namespace, position: int) -> ClassFound | None:
    """Find the class in `Params`, `"Params"`, `Optional[Params]`, `Annotated[Params, …]`."""
    annotation, _ = annotated_metadata(annotation, namespace, position)
    match annotation:
        case ast.Constant(value=str(text)):
            try:
                inner = ast.parse(text.strip(), mode="eval").body
            except (SyntaxError, ValueError):
                return None
            return None if isinstance(inner, ast.Constant) else _class_in(inner, namespace, position)
        case ast.Subscript(value=value, slice=inner):
            if namespace.qualified(value, position) == "typing.Optional":
                return _class_in(inner, namespace, position)
            return None
        case ast.BinOp(op=ast.BitOr(), left=inner, right=ast.Constant(value=None)):
            return _class_in(inner, namespace, position)
        case _:
            found = namespace.meaning(annotation, position)
            return found if isinstance(found, ClassFound) else None


def parameters(
    function: Function, namespace: Namespace, text: ModuleText, described: str
) -> tuple[Parameter, ...]:
    """Give the parameters of an entry point.

    Args:
        function: The entry point.
        namespace: The names of its module.
        text: The text of its module.
        described: The docstrings in whose Args sections descriptions are looked for.
    """
    position = namespace.end
    sections = parameter_descriptions(described)
    found = params_class(function, namespace, position)
    if found is None:
        return tuple(
            _from_argument(argument, namespace, position, text, sections)
            for argument in arguments(function)
        )
    sections = parameter_descriptions(docstring(found.node.body)) | sections
    return tuple(
        _from_field(field, namespace, text, sections) for field in model_fields(found, namespace)
    )


def _from_argument(
    argument: Argument,
    namespace: Namespace,
    position: int,
    text: ModuleText,
    sections: dict[str, str],
) -> Parameter:
    description = ""
    alias: str | None = None
    required, default = argument.required, argument.default
    if argument.annotation is not None:
        _, metadata = annotated_metadata(argument.annotation, namespace, position)
        calls = [node for node in metadata if _is_field(node, namespace, position)]
        if argument.default is not None and _is_field(argument.default, namespace, position):
            calls.append(argument.default)
        facts = _facts([node for node in calls if isinstance(node, ast.Call)], namespace, position)
        description, alias = facts.description, facts.alias
        if default is not None and default in calls:
            default, required = facts.default, facts.required
    return Parameter(
        name=argument.prefix + argument.name,
        annotation=text.written(argument.annotation) if argument.annotation else "",
        required=required,
        default=text.written(default) if default is not None else None,
        description=description or sections.get(argument.name, ""),
        alias=alias,
    )


def _is_field(node: ast.expr, namespace: Namespace, position: int) -> bool:
    return isinstance(node, ast.Call) and namespace.qualified(node.func, position) == "pydantic.Field"


def _from_field(
    field: Field, namespace: Namespace, text: ModuleText, sections: dict[str, str]
) -> Parameter:
    calls = field_calls(field, namespace)
    facts = _facts(calls, namespace, field.owner.position)
    default, required = field.default, field.default is None
    if not calls or default not in calls:
        required = required and facts.required
        if required is False and default is None:
            default = facts.default
        if isinstance(default, ast.Constant) and default.value is Ellipsis:
            default, required = None, True
    else:
        default, required = facts.default, facts.required
    return Parameter(
        name=field.name,
        annotation=text.written(field.annotation),
        required=required,
        default=text.written(default) if default is not None else None,
        description=facts.description or field.note or sections.get(field.name, ""),
        alias=facts.alias if facts.alias != field.name else None,
    )


class _Facts(NamedTuple):
    """What `Field(…)` calls say of a parameter."""

    description: str
    alias: str | None
    required: bool
    default: ast.expr | None


def _facts(calls: list[ast.Call], namespace: Namespace, position: int) -> _Facts:
    description, alias = "", None
    default: ast.expr | None = None
    required = True
    for call in calls:
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        if call.args:
            given["default"] = call.args[0]
        for key in ("alias", "validation_alias"):
            text = constant(given[key], namespace, position) if key in given else UNKNOWN
            alias = text if isinstance(text, str) else alias
        if "description" in given:
            text = constant(given["description"], namespace, position)
            description = inspect.cleandoc(text).strip() if isinstance(text, str) else description
        for key in ("default", "default_factory"):
            node = given.get(key)
            if node is not None:
                empty = isinstance(node, ast.Constant) and node.value is Ellipsis
                default, required = (None, True) if empty else (node, False)
    return _Facts(description, alias, required, default)
