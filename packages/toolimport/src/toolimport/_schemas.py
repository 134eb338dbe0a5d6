"""Normalizing schemas, and the keywords of JSON Schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import JsonValue

ONE = frozenset(
    {
        *("additionalProperties", "items", "contains", "propertyNames", "not", "if", "then"),
        *("else", "additionalItems", "unevaluatedProperties", "unevaluatedItems"),
    }
)
"""The keywords whose value is a schema."""

MANY = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
"""The keywords whose value is a list of schemas."""

NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""The keywords whose value is an object of schemas."""

_CLOSING = ("additionalProperties", "unevaluatedProperties")
_COMBINED = frozenset({"allOf", "anyOf", "oneOf", "$ref"})
_ABOUT = frozenset({"title", "description", "default", "deprecated"})


def as_meant(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema of arguments in the form that its server intends.

    A required property with a default may be left out, because the server has the default.
    OpenAPI's `nullable` allows null. A property that is required without being described may be
    anything; if no other properties are allowed, it is not required, because no call would be
    valid.
    """
    whole = cast("JsonValue", schema)
    try:
        made = mapped(whole, lambda node: _nullable(_required(node, whole)))
    except RecursionError:  # nobody can use it
        return dict(schema)
    return cast("dict[str, Any]", made)


def without_patterns(schema: JsonValue) -> Any:  # noqa: ANN401
    """Leave out regular expressions, and what depends on the names that they match."""

    def plain(node: dict[str, JsonValue]) -> JsonValue:
        hidden = {"pattern", *(("patternProperties", *_CLOSING) if _has_patterns(node) else ())}
        return {key: value for key, value in node.items() if key not in hidden}

    return mapped(schema, plain)


def target_of(reference: JsonValue, schema: JsonValue) -> JsonValue:
    """Return the part of a schema that a reference into it means; None if there is none."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    for part in unquote(reference[1:]).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(schema, list) and key.isdecimal() and int(key) < len(schema):
            schema = schema[int(key)]
        elif isinstance(schema, dict) and key in schema:
            schema = schema[key]
        else:
            return None
    return schema


def _required(node: dict[str, JsonValue], whole: JsonValue) -> dict[str, JsonValue]:
    """Correct which properties are required."""
    properties, required = node.get("properties"), node.get("required")
    if not isinstance(required, list) or not isinstance(properties, dict):
        return node
    needed = [it for it in required if not _has_default(properties.get(str(it)), whole)]
    strange = [it for it in needed if isinstance(it, str) and it not in properties]
    if strange and _COMBINED.isdisjoint(node):
        if any(node.get(key) is False for key in _CLOSING) and not _has_patterns(node):
            needed = [it for it in needed if it not in strange]
        else:
            others = node.get("additionalProperties", {})
            node["properties"] = properties | dict.fromkeys(strange, others)
    return node | {"required": needed}


def _has_default(schema: JsonValue, whole: JsonValue) -> bool:
    if not isinstance(schema, dict):
        return False
    target = target_of(schema.get("$ref"), whole)
    return "default" in schema or (isinstance(target, dict) and "default" in target)


def _nullable(node: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Write OpenAPI's `nullable` as JSON Schema."""
    if node.pop("nullable", None) is not True:
        return node
    kinds, choices = node.get("type"), node.get("enum")
    if isinstance(choices, list):
        node["enum"] = [*choices, *([] if None in choices else [None])]
    if isinstance(kinds, str | list):
        kinds = [kinds] if isinstance(kinds, str) else kinds
        node["type"] = [*kinds, *([] if "null" in kinds else ["null"])]
    is_other = not {"type", "enum"} & node.keys() and node.keys() > _ABOUT & node.keys()
    if is_other or "const" in node or not _COMBINED.isdisjoint(node):
        about = {key: node.pop(key) for key in _ABOUT & node.keys()}
        return {"anyOf": [cast("JsonValue", node), {"type": "null"}], **about}
    return node


def _has_patterns(node: Mapping[str, JsonValue]) -> bool:
    return bool(node.get("patternProperties"))


def mapped(schema: JsonValue, change: Callable[[dict[str, JsonValue]], JsonValue]) -> JsonValue:
    """Change each schema in a schema, beginning with the innermost ones."""
    if not isinstance(schema, dict):
        return schema
    made = dict(schema)
    for key, value in schema.items():
        if key in ONE and isinstance(value, dict):
            made[key] = mapped(value, change)
        elif (key in MANY or key == "items") and isinstance(value, list):
            made[key] = [mapped(item, change) for item in value]
        elif key in NAMED and isinstance(value, dict):
            made[key] = {name: mapped(item, change) for name, item in value.items()}
    return change(made)
