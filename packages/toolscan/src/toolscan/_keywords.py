"""Keywords of JSON Schema, combined by pydantic's rules."""

from __future__ import annotations

import math
from typing import Any, cast

from toolscan._constants import UNKNOWN

Schema = dict[str, Any]

_NUMBER = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
_ARRAY = {"min_length": "minItems", "max_length": "maxItems"}
_OBJECT = {"min_length": "minProperties", "max_length": "maxProperties"}
_STRING = {"min_length": "minLength", "max_length": "maxLength"}
# For types that have no length, pydantic writes a length as for a string.
_BY_TYPE = {
    "integer": _NUMBER | _STRING,
    "number": _NUMBER | _STRING,
    "array": _ARRAY,
    "object": _OBJECT,
    "string": _STRING,
}


def constrain(schema: Schema, constraints: dict[str, object]) -> Schema:
    """Add bounds to a schema, under the keywords that its type has for them.

    A bound that the type has no keyword for is left out, as pydantic only validates it.
    """
    if not constraints:
        return schema
    kind = schema.get("type")
    names = _BY_TYPE.get(kind, _STRING) if isinstance(kind, str) else _STRING
    if schema.keys() <= {"type", "minLength", "maxLength", "pattern"} and kind == "string":
        names = names | {"pattern": "pattern"}
    added = {
        names[name]: value
        for name, value in constraints.items()
        if name in names and not (isinstance(value, float) and math.isinf(value))
    }
    choices = cast("list[Schema]", schema.get("anyOf", [{}]))
    if choices[0] == {"type": "number"}:
        # A decimal or a fraction, as a number or as text: the bounds apply to the number.
        numeric = constrain(
            {"type": "number"}, {k: v for k, v in constraints.items() if k in _NUMBER}
        )
        return schema | {"anyOf": [numeric, *choices[1:]]} | added
    return schema | added


def any_of(schemas: list[Schema]) -> Schema:
    """Return the schema of a union: nested unions are flattened, equal members merged."""
    members: dict[object, Schema] = {}
    for schema in schemas:
        inner = schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]
        for member in cast("list[Schema]", inner):
            members.setdefault(_identity(member), member)
    choices = list(members.values())
    return choices[0] if len(choices) == 1 else {"anyOf": choices}


def _identity(value: object) -> object:
    """Return a hashable value that is equal for equal JSON; in Python, True also equals 1."""
    match value:
        case dict():
            pairs = cast("Schema", value).items()
            return frozenset((key, _identity(item)) for key, item in pairs)
        case list():
            return tuple(map(_identity, cast("list[object]", value)))
        case _:
            return type(value), value


def mapping(keys: Schema, values: Schema) -> Schema:
    """Return the schema of a dictionary."""
    schema: Schema = {"type": "object"}
    # In pydantic's schemas, keys and values of a dictionary have no title.
    names, values = ({k: v for k, v in it.items() if k != "title"} for it in (keys, values))
    pattern = names.pop("pattern", None) if "$ref" not in names else None
    if pattern is not None:
        schema["patternProperties"] = {pattern: values}
    else:
        schema["additionalProperties"] = values or True
    if (names.get("type") == "string" and len(names) > 1) or "$ref" in names:
        names.pop("type", None)
        schema["propertyNames"] = names
    return schema


def literal(values: list[object]) -> Schema:
    """Return the schema of a set of constants, or an open schema if one of them is unknown."""
    encoded = [jsonable(value) for value in values]
    if not encoded or any(value is UNKNOWN for value in encoded):
        return {}
    distinct = list({_identity(value): value for value in encoded}.values())
    schema: Schema = {"const": distinct[0]} if len(distinct) == 1 else {"enum": distinct}
    return schema | type_of(distinct)


_TYPES: dict[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    type(None): "null",
}


def type_of(values: list[object]) -> Schema:
    """Return the `type` of the values; an empty schema if their types differ."""
    kinds = {type(value) for value in values}
    kind = _TYPES.get(kinds.pop()) if len(kinds) == 1 else None
    return {"type": kind} if kind else {}


def jsonable(value: object) -> object:
    """Return a constant as a JSON value; `UNKNOWN` if JSON cannot express it."""
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else UNKNOWN
        case str():
            return value if is_text(value) else UNKNOWN
        case bytes():
            return value.decode("utf-8", "replace") if _decodes(value) else UNKNOWN
        case list():
            items = [jsonable(item) for item in cast("list[object]", value)]
            return UNKNOWN if any(item is UNKNOWN for item in items) else items
        case dict():
            pairs = cast("dict[object, object]", value).items()
            encoded = {_key(key): jsonable(item) for key, item in pairs}
            known = all(map(is_text, encoded)) and UNKNOWN not in encoded.values()
            return encoded if known else UNKNOWN
        case _:
            return UNKNOWN


def _key(key: object) -> str:
    match key:
        case None:
            return "None"
        case bool():
            return "true" if key else "false"
        case _:
            return str(key)


def is_text(value: str) -> bool:
    """Return whether a text can be encoded as UTF-8; a lone surrogate cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _decodes(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
