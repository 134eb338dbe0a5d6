"""JSON Schema of classes: models, enums, typed dicts, dataclasses, named tuples."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, cast

from toolscan._configuration import configuration
from toolscan._constants import UNKNOWN, constant, members
from toolscan._fields import DeclaredField, declared_fields, typed_dict_fields
from toolscan._keywords import Schema, is_text, jsonable, literal, type_of
from toolscan._models import (
    Kind,
    filled_variables,
    has_unknown_parent,
    kind_of,
    root_annotation,
    writes_own_schema,
)
from toolscan._syntax import docstring
from toolscan._types import TypeReader, describe

if TYPE_CHECKING:
    from toolscan._namespace import ClassFound, Scope


def define(reader: TypeReader, found: ClassFound, args: list[ast.expr], scope: Scope) -> Schema:
    """Return the schema of a class."""
    inside = scope._replace(variables=filled_variables(found, args, scope))
    if writes_own_schema(found, inside):
        return _about(found)
    match kind_of(found, inside):
        case Kind.ENUM:
            return _enum(found, inside)
        case Kind.MODEL:
            return _model(reader, found, inside)
        case Kind.ROOT_MODEL:
            return _root_model(reader, found, inside)
        case Kind.DATACLASS:
            return _object(reader, declared_fields(found, inside)) | _about(found)
        case Kind.TYPED_DICT:
            return _object(reader, typed_dict_fields(found, inside)) | _about(found)
        case Kind.NAMED_TUPLE:
            return _named_tuple(reader, declared_fields(found, inside))
        case _:
            return {}


def _about(found: ClassFound) -> Schema:
    text = docstring(found.node.body)
    return {"description": text} if text and is_text(text) else {}


def _model(reader: TypeReader, found: ClassFound, scope: Scope) -> Schema:
    config = configuration(found, scope)
    fields = declared_fields(found, scope)
    schema = _object(reader, fields, config) | _about(found)
    extra = str(config.get("extra")).removeprefix("pydantic.Extra.")
    closed = all(field.is_named for field in fields) and not has_unknown_parent(found, scope)
    if extra == "allow" or (extra == "forbid" and closed):
        schema["additionalProperties"] = extra == "allow"
    return _configured(schema, config)


def _configured(schema: Schema, config: dict[str, object]) -> Schema:
    """Apply a model's configuration to its schema; leave the schema open if it is unknown."""
    title = config.get("title")
    if isinstance(title, str) and is_text(title):
        schema = schema | {"title": title}
    more = config.get("json_schema_extra", {})
    if not isinstance(more, dict):
        return {key: schema[key] for key in ("description",) if key in schema}
    schema = schema | cast("Schema", more)
    return {key: value for key, value in schema.items() if value is not UNKNOWN and is_text(key)}


def _root_model(reader: TypeReader, found: ClassFound, scope: Scope) -> Schema:
    fields = [field for field in declared_fields(found, scope) if field.field.name == "root"]
    if fields:
        # Metadata of the root field comes before that of the class.
        schema = _about(found) | field_schema(reader, fields[0], {})
    else:
        root = root_annotation(found, scope)
        schema = (reader.read(*root) if root else {}) | _about(found)
    return _configured(schema, configuration(found, scope))


def _object(
    reader: TypeReader, fields: list[DeclaredField], config: dict[str, object] | None = None
) -> Schema:
    """Return the schema of an object with fields.

    Fields whose names in data are only known by running the module, such as those from an
    `alias_generator` function, are left out, and the object allows additional properties.
    """
    config = config or {}
    named = [field for field in fields if field.is_named]
    schema: Schema = {"type": "object"}
    if named or not fields:
        schema["properties"] = {it.name: field_schema(reader, it, config) for it in named}
    if required := [field.name for field in named if field.required]:
        schema["required"] = required
    return schema


def field_schema(reader: TypeReader, field: DeclaredField, config: dict[str, object]) -> Schema:
    """Return the schema of a field, with its description and default."""
    is_open = field.metadata.override is not None
    schema = {} if is_open else reader.read(field.type, field.scope, field.metadata)
    if schema.get("type") == "string" and "format" not in schema and "const" not in schema:
        for name, keyword in (("str_min_length", "minLength"), ("str_max_length", "maxLength")):
            if isinstance(length := config.get(name), int) and length and keyword not in schema:
                schema = schema | {keyword: length}
    schema = describe(schema, field.metadata)
    if field.description and is_text(field.description):
        schema["description"] = field.description
    return with_default(schema, field.default, field.scope)


def with_default(schema: Schema, default: ast.expr | None, scope: Scope) -> Schema:
    """Add a default to a schema if it is a constant."""
    if default is None:
        return schema
    value = jsonable(constant(default, scope))
    if isinstance(default, ast.Set) and isinstance(value, list):
        value = sorted(cast("list[object]", value), key=str)
    return schema if value is UNKNOWN else schema | {"default": value}


def _enum(found: ClassFound, scope: Scope) -> Schema:
    values = list(members(found, scope).values())
    if not values:
        return _about(found)
    schema = literal(values)
    if "const" in schema:  # pydantic writes enum even for a single value
        schema["enum"] = [schema.pop("const")]
    kind = type_of(schema.get("enum", []))
    return {key: value for key, value in schema.items() if key != "type"} | kind | _about(found)


def _named_tuple(reader: TypeReader, fields: list[DeclaredField]) -> Schema:
    schema: Schema = {"type": "array", "maxItems": len(fields)}
    if fields:
        schema["prefixItems"] = [field_schema(reader, field, {}) for field in fields]
    if needed := sum(field.required for field in fields):
        schema["minItems"] = needed
    return schema
