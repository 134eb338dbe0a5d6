"""The JSON Schemas of a tool's input and output."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from toolscan._fields import arguments, declared_argument, params_class, unpacked_fields
from toolscan._namespace import Namespace, Scope
from toolscan._records import Rejection
from toolscan._source import Function, parse, top_level
from toolscan._types import TypeReader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolscan._fields import Declared
    from toolscan._keywords import Schema
    from toolscan._records import ToolRecord


def read_input(record: ToolRecord) -> Schema:
    try:
        found = _entrypoint(record)
        if found is None:
            return {"type": "object"}
        function, scope = found
        reader = TypeReader()
        # What Args sections describe, for fields and arguments without a description in pydantic.
        said = {it.alias or it.name: it.description for it in record.parameters if it.description}
        held = params_class(function, scope)
        if held is None:
            return _assembled(_arguments(function, scope, reader, said), reader)
        schema = _assembled(reader.refer(held, [], scope), reader)
    except (Rejection, RecursionError):
        return {"type": "object"}
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    owner = schema["$defs"][name] if name else schema
    fields = cast("dict[str, Schema]", owner.get("properties", {}))
    for key, field in fields.items():
        if key in said and "description" not in field:
            fields[key] = field | {"description": said[key]}
    return schema


def read_output(record: ToolRecord) -> Schema | None:
    try:
        found = _entrypoint(record)
        if found is None or found[0].returns is None:
            return None
        reader = TypeReader()
        return _assembled(reader.read(found[0].returns, found[1]), reader)
    except (Rejection, RecursionError):
        return None


def _entrypoint(record: ToolRecord) -> tuple[Function, Scope] | None:
    """Return the function at the end of the definitions; a handmade record may have none."""
    module = parse(record.definitions)
    namespace = Namespace(top_level(module.body))
    function = module.body[-1] if module.body else None
    if not isinstance(function, Function):
        return None
    return function, Scope(namespace, namespace.end, None, namespace.lazy)


def _assembled(schema: Schema, reader: TypeReader) -> Schema:
    """Add the definitions to the schema, and inline classes that are referred to once."""
    definitions = dict(reader.definitions())
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


def _arguments(
    function: Function, scope: Scope, reader: TypeReader, said: dict[str, str]
) -> Schema:
    """Return the schema of a call: an object if keywords suffice."""
    named: list[tuple[Declared, Schema]] = []
    rest: dict[str, Schema] = {}
    for argument in arguments(function):
        unpacked = unpacked_fields(argument, scope)
        for it in unpacked or [declared_argument(argument, scope)]:
            schema = reader.declared(it, described=said.get(it.alias or it.name, ""))
            if argument.prefix and not unpacked:
                rest[argument.prefix] = schema
            elif it.alias is None:
                return {"type": "object"}
            else:
                named.append((it, schema))
    if (
        (function.args.posonlyargs or function.args.vararg)
        and not function.args.kwonlyargs
        and not function.args.kwarg
    ):
        listed: Schema = {"type": "array"}
        if named:
            listed["prefixItems"] = [schema for _, schema in named]
        if needed := sum(it.required for it, _ in named):
            listed["minItems"] = needed
        if "*" not in rest:
            listed["maxItems"] = len(named)
        elif rest["*"]:
            listed["items"] = rest["*"]
        return listed
    properties = {it.alias: schema for it, schema in named}
    whole: Schema = {"type": "object", "properties": properties}
    if required := [it.alias for it, _ in named if it.required]:
        whole["required"] = required
    if "**" not in rest:
        whole["additionalProperties"] = False
    elif rest.get("**"):
        whole["additionalProperties"] = rest["**"]
    return whole
