"""Cleaning untrusted schemas of everything that does not describe data."""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING, Any, cast

from toolimport._schemas import MANY, NAMED, ONE, as_meant, mapped

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Mapping

    from pydantic import JsonValue

_PLAIN = frozenset(
    {
        *("type", "enum", "const", "default", "title", "description", "required"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems"),
        *("minProperties", "maxProperties", "minContains", "maxContains"),
        *("dependentRequired", "deprecated", "readOnly", "writeOnly"),
    }
)
_CLOSING = ("additionalProperties", "unevaluatedProperties")
# What pydantic's expressions mean otherwise than those of JavaScript: classes of Unicode without
# some characters, other ends, and sets in brackets.
_OTHERWISE = re.compile(r"\\[WDSBbAzZ]|\[[^\]]*(?:\[|&&|--|~~)")
FORMAT = "x-format"
"""The keyword for a format, which the models only mention."""

_DEEPEST = 60
_MOST_PARTS = 20_000
_MOST_COMBINATIONS = 500
# The generator takes quadratic time for choices.
_MOST_CHOICES = 1_000
_OWN = frozenset({"params", "result"})


def cleaned_schema(schema: object) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Keep only JSON Schema's keywords, and references into the schema itself.

    The generator has additional keywords, with which a server could make it import any module, and
    it would follow references to files and addresses.

    Returns:
        The schema of an object, and notes on what was left out.

    Raises:
        ValueError: It is nested too deeply.
    """
    notes: dict[str, None] = {}
    given = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    made = _cleaned(as_meant(given), notes, 0)
    cleaned: dict[str, JsonValue] = made if isinstance(made, dict) else {}
    if "properties" in cleaned or not {"anyOf", "oneOf", "allOf", "$ref"} & cleaned.keys():
        cleaned.setdefault("type", "object")
    if cleaned.get("type") == "object":
        cleaned.setdefault("properties", {})
    return cleaned, tuple(notes)


def without_defaults(
    schema: dict[str, Any], is_valid: Callable[[JsonValue, JsonValue], bool]
) -> dict[str, Any]:
    """Leave out defaults that the schema itself does not allow."""

    def plain(node: dict[str, JsonValue]) -> JsonValue:
        if "default" in node and not is_valid(node["default"], node):
            del node["default"]
        return node

    return cast("dict[str, Any]", mapped(cast("JsonValue", schema), plain))


def loosened(schema: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Let some properties of an object be anything, and keep their descriptions."""
    properties = {
        name: {"description": it["description"]} if "description" in it else {}
        for name, it in schema["properties"].items()
        if name in names
    }
    return schema | {"properties": schema["properties"] | properties}


def renamed_parts(schema: dict[str, Any]) -> dict[str, Any]:
    """Rename parts with the names of a module's own models, `Params` and `Result`.

    Otherwise the generator would use these names for the parts, and others for the models.
    """
    others: dict[str, str] = {}
    for key in ("$defs", "definitions"):
        names = schema.get(key, {})
        for name in names:
            path = f"#/{key}/{name}"
            # A schema that is just a reference to a part may use the model's name.
            if re.sub(r"[\W_]+", "", name).lower() in _OWN and schema.get("$ref") != path:
                others[path] = _free(f"{name}Item", names)
    return cast("dict[str, Any]", _renamed(schema, "#", others)) if others else schema


def check_size(schema: dict[str, Any]) -> None:
    """Reject a schema with too many combinations, all of which the generator would expand."""
    _Size(schema).of(schema)


class _Size:
    """Counts the parts and combinations of a schema."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        self._parts = 0
        self._known: dict[str, int] = {}

    def of(self, value: JsonValue) -> int:
        """Return the number of alternatives of a part."""
        if isinstance(value, list):
            for item in value:
                self.of(item)
        if not isinstance(value, dict):
            return 1
        self._parts += 1
        alternatives, common = 0, 1
        for key, item in value.items():
            if key in {"anyOf", "oneOf"} and isinstance(item, list):
                alternatives += sum(map(self.of, item))
            elif key == "allOf" and isinstance(item, list):
                common *= prod(self._merged(it) for it in item)
            else:
                self.of(item)
        found = max(alternatives, 1) * common
        if found > _MOST_COMBINATIONS or self._parts > _MOST_PARTS:
            raise ValueError("its schema has too many parts, or combinations of them")
        return found

    def _merged(self, part: JsonValue) -> int:
        """Count a part of `allOf`, whose references the generator resolves."""
        reference = part.get("$ref") if isinstance(part, dict) else None
        if not isinstance(reference, str):
            return self.of(part)
        _, _, path = reference.partition("/")
        kind, _, name = path.partition("/")
        if kind not in {"$defs", "definitions"} or "/" in name:
            return self.of(part)
        if reference not in self._known:
            self._known[reference] = 1  # for a part that refers to itself
            self._known[reference] = self.of(self._schema.get(kind, {}).get(name))
        return self._known[reference]


def _renamed(value: JsonValue, path: str, others: Mapping[str, str]) -> JsonValue:
    if isinstance(value, list):
        return [_renamed(item, "", others) for item in value]
    if not isinstance(value, dict):
        return value
    made: dict[str, JsonValue] = {}
    for key, item in value.items():
        here = f"{path}/{key}" if path in {"#", "#/$defs", "#/definitions"} else ""
        if key == "$ref" and isinstance(item, str):
            # References to parts of the part have the same prefix.
            start, rest = "/".join(item.split("/")[:3]), item.split("/")[3:]
            if start in others:
                made[key] = "/".join([*start.split("/")[:2], others[start], *rest])
                continue
        made[others.get(here, key)] = _renamed(item, here, others)
    return made


def _free(name: str, taken: Container[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _cleaned(schema: JsonValue, notes: dict[str, None], depth: int) -> dict[str, JsonValue] | bool:
    if isinstance(schema, bool) or not isinstance(schema, dict):
        return schema is not False
    if depth > _DEEPEST:
        raise ValueError("its schema is nested too deeply")
    kept: dict[str, JsonValue] = {}
    for key, value in schema.items():
        if key == "$ref":
            if isinstance(value, str) and value.startswith("#"):
                kept[key] = value
            else:
                notes["a reference out of its schema was ignored"] = None
        elif key in ONE:
            kept[key] = (
                [_cleaned(item, notes, depth + 1) for item in value]
                if isinstance(value, list)
                else value
                if isinstance(value, bool)
                else _cleaned(value, notes, depth + 1)
            )
        elif key in MANY and isinstance(value, list):
            kept[key] = [_cleaned(item, notes, depth + 1) for item in value]
        elif key in NAMED and isinstance(value, dict):
            kept[key] = {name: _cleaned(item, notes, depth + 1) for name, item in value.items()}
        elif key == "enum" and isinstance(value, list) and len(value) > _MOST_CHOICES:
            notes[f"a list of more than {_MOST_CHOICES:,} choices was left out"] = None
        elif key == "pattern" and isinstance(value, str) and _OTHERWISE.search(value):
            notes["a pattern that pydantic would read in another way was left out"] = None
        elif key in _PLAIN:
            kept[key] = value
        elif key == "format" and isinstance(value, str):
            # A type for a format would change some values and refuse others.
            kept[FORMAT] = value
    _without_other_rules(kept)
    for limit in ("Minimum", "Maximum"):
        # In draft 4 this is a boolean.
        if isinstance(excluded := kept.get(f"exclusive{limit}"), bool):
            del kept[f"exclusive{limit}"]
            if excluded and limit.lower() in kept:
                kept[f"exclusive{limit}"] = kept.pop(limit.lower())
    if not {"enum", "const"} & kept.keys():
        kept |= {"type": _exact(kept["type"])} if "type" in kept else {}
    return kept


def _without_other_rules(kept: dict[str, JsonValue]) -> None:
    """Leave out rules for other properties where the generator would apply them to all."""
    properties, patterns = kept.get("properties"), kept.get("patternProperties")
    is_map = isinstance(patterns, dict) and len(patterns) == 1 and not properties
    if patterns and not (is_map and kept.get("additionalProperties") is False):
        for key in ("patternProperties", *_CLOSING):
            kept.pop(key, None)
    if properties:
        for key in _CLOSING:
            if isinstance(kept.get(key), dict):
                del kept[key]


def _exact(kinds: JsonValue) -> JsonValue:
    """Allow integers besides floats, which cannot hold long ones; booleans come last."""
    listed = kinds if isinstance(kinds, list) else [kinds]
    if "number" in listed and "integer" not in listed:
        return _exact(["integer", *listed])
    # As the first one, pydantic would take 1.0 for true.
    return sorted(listed, key="boolean".__eq__) if isinstance(kinds, list) else kinds
