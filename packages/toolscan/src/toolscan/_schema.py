"""The JSON Schemas of a tool's input and output."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from toolscan._classes import define, with_default
from toolscan._docstrings import parameter_descriptions
from toolscan._namespace import Namespace, Scope
from toolscan._parameters import Argument, arguments, describe_argument, params_class
from toolscan._source import parse
from toolscan._syntax import Function, top_level
from toolscan._types import Definitions, TypeReader, describe

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolscan._keywords import Schema
    from toolscan._records import ToolRecord

__all__ = ["input_schema", "output_schema"]


def input_schema(record: ToolRecord) -> Schema:
    """Give the JSON Schema (2020-12) of what a tool takes.

    For `params: Params` it is that of `Params`, else that of the arguments, equal in meaning to
    what pydantic gives for the class or the function. Titles that pydantic makes of names are left
    out; descriptions from attribute docstrings and Args sections are added.
    """
    function, scope = _entrypoint(record)
    reader = TypeReader(Definitions(), define)
    found = params_class(function, scope)
    if found is not None:
        schema = reader.refer(found, scope)
    else:
        schema = _arguments(function, scope, reader, record)
    return _assembled(schema, reader)


def output_schema(record: ToolRecord) -> Schema | None:
    """Give the JSON Schema (2020-12) of what a tool returns, `None` where it does not say."""
    function, scope = _entrypoint(record)
    if function.returns is None:
        return None
    reader = TypeReader(Definitions(), define)
    return _assembled(reader.read(function.returns, scope), reader)


def _entrypoint(record: ToolRecord) -> tuple[Function, Scope]:
    module = parse(record.definitions)
    namespace = Namespace(top_level(module.body))
    function = module.body[-1]
    assert isinstance(function, Function)  # noqa: S101  (the record puts it there)
    return function, Scope(namespace, namespace.end, None, namespace.lazy)


def _assembled(schema: Schema, reader: TypeReader) -> Schema:
    """Put the definitions with the schema; a class that nothing else refers to is put in place."""
    definitions = dict(reader.definitions.complete())
    if schema.keys() == {"$ref"}:
        name = schema["$ref"].removeprefix("#/$defs/")
        if not _refers(definitions, schema["$ref"]):
            schema = definitions.pop(name)
    return schema | ({"$defs": definitions} if definitions else {})


def _refers(node: object, reference: str) -> bool:
    if isinstance(node, dict):
        schema = cast("Schema", node)
        inside: Iterable[object] = schema.values()
        return schema.get("$ref") == reference or any(_refers(it, reference) for it in inside)
    items = cast("list[object]", node) if isinstance(node, list) else []
    return any(_refers(item, reference) for item in items)


def _arguments(function: Function, scope: Scope, reader: TypeReader, record: ToolRecord) -> Schema:
    """Give the schema of a call, by keywords where it can be made by keywords alone."""
    sections = parameter_descriptions(record.description)
    every = list(arguments(function))
    named = [argument for argument in every if not argument.prefix]
    schemas = {it.name: _argument(it, scope, reader, sections) for it in named}
    rest = {it.prefix: _argument(it, scope, reader, sections)[1] for it in every if it.prefix}
    positional = function.args.posonlyargs or function.args.vararg
    if positional and not function.args.kwonlyargs and not function.args.kwarg:
        schema: Schema = {"type": "array"}
        if named:
            schema["prefixItems"] = [schemas[it.name][1] for it in named]
        if needed := sum(schemas[it.name][2] for it in named):
            schema["minItems"] = needed
        if "*" not in rest:
            schema["maxItems"] = len(named)
        elif rest["*"]:
            schema["items"] = rest["*"]
        return schema
    schema = {"type": "object", "properties": {name: it for name, it, _ in schemas.values()}}
    if required := [name for name, _, needed in schemas.values() if needed]:
        schema["required"] = required
    if "**" not in rest:
        schema["additionalProperties"] = False
    elif rest["**"]:
        schema["additionalProperties"] = rest["**"]
    return schema


def _argument(
    argument: Argument, scope: Scope, reader: TypeReader, sections: dict[str, str]
) -> tuple[str, Schema, bool]:
    """Give an argument's name in data, its schema, and whether a call must have it."""
    said = describe_argument(argument, scope)
    schema = reader.read(said.type, scope, said.metadata) if said.type is not None else {}
    schema = describe(schema, said.metadata)
    if "description" not in schema and argument.name in sections:
        schema = schema | {"description": sections[argument.name]}
    name = said.metadata.alias or argument.name
    return name, with_default(schema, said.default, scope), said.required
