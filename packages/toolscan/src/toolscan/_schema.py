"""The JSON Schemas of a tool's input and output."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from toolscan._classes import define, field_schema, with_default
from toolscan._issues import Rejection
from toolscan._namespace import Namespace, Scope
from toolscan._parameters import (
    Argument,
    arguments,
    describe_argument,
    params_class,
    unpacked_fields,
)
from toolscan._sections import parameter_descriptions
from toolscan._source import parse
from toolscan._syntax import Function, top_level
from toolscan._types import Definitions, TypeReader, describe

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolscan._fields import DeclaredField
    from toolscan._keywords import Schema
    from toolscan._records import ToolRecord


def input_schema(record: ToolRecord) -> Schema:
    """Return the JSON Schema (2020-12) of a tool's input.

    For `params: Params` it is the schema of `Params`, otherwise that of the arguments. It is
    equivalent to pydantic's schema of the class or function, without titles that pydantic derives
    from names, and with descriptions from attribute docstrings and Args sections.

    The schema allows any object if the record has no definitions, or too deeply nested ones.
    """
    try:
        return _input(record)
    except (Rejection, RecursionError):
        return {"type": "object"}


def _input(record: ToolRecord) -> Schema:
    found = _entrypoint(record)
    if found is None:
        return {"type": "object"}
    function, scope = found
    reader = TypeReader(Definitions(), define)
    held = params_class(function, scope)
    if held is None:
        return _assembled(_arguments(function, scope, reader, record), reader)
    return _described(_assembled(reader.refer(held, scope), reader), record)


def output_schema(record: ToolRecord) -> Schema | None:
    """Return the JSON Schema (2020-12) of a tool's output; `None` if it is not declared.

    It is in pydantic's validation mode, not its serialization mode. It is also `None` if the record
    has no definitions, or too deeply nested ones.
    """
    try:
        return _output(record)
    except (Rejection, RecursionError):
        return None


def _output(record: ToolRecord) -> Schema | None:
    found = _entrypoint(record)
    if found is None or found[0].returns is None:
        return None
    reader = TypeReader(Definitions(), define)
    return _assembled(reader.read(found[0].returns, found[1]), reader)


def _entrypoint(record: ToolRecord) -> tuple[Function, Scope] | None:
    """Return the function at the end of the definitions; a handmade record may have none."""
    module = parse(record.definitions)
    namespace = Namespace(top_level(module.body))
    function = module.body[-1] if module.body else None
    if not isinstance(function, Function):
        return None
    return function, Scope(namespace, namespace.end, None, namespace.lazy)


def _described(schema: Schema, record: ToolRecord) -> Schema:
    """Add descriptions from Args sections to the fields that have none in pydantic."""
    said = {it.alias or it.name: it.description for it in record.parameters if it.description}
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    owner = schema["$defs"][name] if name else schema
    fields = cast("dict[str, Schema]", owner.get("properties", {}))
    for key, field in fields.items():
        if key in said and "description" not in field:
            fields[key] = field | {"description": said[key]}
    return schema


def _assembled(schema: Schema, reader: TypeReader) -> Schema:
    """Add the definitions to the schema, and inline classes that are referred to once."""
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
    """Return the schema of a call: an object if keywords suffice."""
    sections = parameter_descriptions(record.description)
    every = list(arguments(function))
    named = [argument for argument in every if not argument.prefix]
    schemas = {it.name: _argument(it, scope, reader, sections) for it in named}
    unpacked = [field for it in every for field in unpacked_fields(it, scope)]
    schemas |= {it.field.name: _keyword(it, reader, sections) for it in unpacked}
    rest = {it.prefix: _argument(it, scope, reader, sections)[1] for it in every if it.prefix}
    if unpacked:
        rest.pop("**")
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


def _keyword(
    field: DeclaredField, reader: TypeReader, sections: dict[str, str]
) -> tuple[str, Schema, bool]:
    schema = field_schema(reader, field, {})
    if "description" not in schema and field.field.name in sections:
        schema = schema | {"description": sections[field.field.name]}
    return field.name, schema, field.required


def _argument(
    argument: Argument, scope: Scope, reader: TypeReader, sections: dict[str, str]
) -> tuple[str, Schema, bool]:
    """Return an argument's name in data, its schema, and whether it is required."""
    said = describe_argument(argument, scope)
    schema = reader.read(said.type, scope, said.metadata) if said.type is not None else {}
    schema = describe(schema, said.metadata)
    if "description" not in schema and argument.name in sections:
        schema = schema | {"description": sections[argument.name]}
    name = said.metadata.alias or argument.name
    return name, with_default(schema, said.default, scope), said.required
