"""Trying a generated model on values made from its schema."""

from __future__ import annotations

import json
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any, cast

from toolimport._schemas import target_of
from toolimport.connect._schemas import argument_validator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pydantic import BaseModel, JsonValue

_SHOWN = 100
_MOST = 16
_MOST_CHOICES = 40
_MOST_WHOLE = 400
_MOST_STEPS = 3_000
_DEEPEST = 6
_KINDS = ("object", "array", "string", "integer", "number", "boolean", "null")
_RULES = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "prefixItems"},
    "string": {"minLength", "maxLength", "pattern"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
}
_NOTHING: Any = object()
_UNKNOWN = "other-property"


def refused(model: type[BaseModel], samples: list[JsonValue]) -> dict[str, str]:
    """Return the properties whose values a model refuses or changes, and an example of each.

    What concerns no single property has the name "".
    """
    from pydantic import ValidationError

    found: dict[str, str] = {}
    for sample in samples:
        try:
            # As callers do; a result is validated, which is the same.
            given = model(**sample) if isinstance(sample, dict) else model.model_validate(sample)
            made = given.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
        except ValidationError as error:
            places = {str((*it["loc"], "")[0]) for it in error.errors(include_url=False)}
        except Exception:  # noqa: BLE001 - of a stranger's schema
            places = {""}
        else:
            if _are_equal(sample, made):
                continue
            places = {""}
            if isinstance(sample, dict):
                places = {
                    key
                    for key in sample.keys() | made.keys()
                    if not _are_equal(sample.get(key, _NOTHING), made.get(key, _NOTHING))
                }
        for place in places:
            value = sample.get(place) if isinstance(sample, dict) else sample
            found.setdefault(place, json.dumps(value)[:_SHOWN])
    return found


def _are_equal(one: Any, other: Any) -> bool:  # noqa: ANN401 - any JSON
    """Return whether two values are equal in JSON, where 1.0 is 1, but true is not."""
    if isinstance(one, dict) and isinstance(other, dict):
        ours, theirs = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        return ours.keys() == theirs.keys() and all(
            _are_equal(value, theirs[key]) for key, value in ours.items()
        )
    if isinstance(one, list) and isinstance(other, list):
        pairs = zip_longest(cast("list[Any]", one), cast("list[Any]", other), fillvalue=_NOTHING)
        return all(_are_equal(*pair) for pair in pairs)
    return one == other and isinstance(one, bool) == isinstance(other, bool)


class Samples:
    """Makes values that a schema allows.

    Args:
        schema: The schema, cleaned.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = cast("JsonValue", schema)
        validator = argument_validator(json.dumps(schema))
        # One that allows anything stands for a schema that is invalid or large.
        is_usable = validator is not None and validator.schema.keys() != {"type"}
        self._validator: Any = validator if is_usable else None
        self._left = _MOST_STEPS

    def values(self) -> list[JsonValue]:
        """Return a handful of values."""
        if self._validator is None:
            return []
        return self._of(self._schema, 0)

    def is_valid(self, value: JsonValue, schema: JsonValue) -> bool:
        """Return whether a part of the schema certainly allows a value."""
        try:
            return bool(self._validator.evolve(schema=schema).is_valid(value))
        except Exception:  # noqa: BLE001 - of a stranger's schema
            return False

    def _of(self, schema: JsonValue, depth: int) -> list[JsonValue]:
        self._left -= 1
        if schema is False or depth > _DEEPEST or self._left < 0:
            return []
        node = schema if isinstance(schema, dict) else {}
        most = _MOST_CHOICES if "enum" in node else _MOST if depth else _MOST_WHOLE
        valid = (it for it in self._candidates(node, depth) if self.is_valid(it, node))
        return list(islice(valid, most))

    def _candidates(self, node: dict[str, JsonValue], depth: int) -> Iterator[JsonValue]:
        if "default" in node:
            yield node["default"]
        if "const" in node:
            yield node["const"]
        if isinstance(choices := node.get("enum"), list):
            yield from choices
        if "const" in node or "enum" in node:
            return
        if "$ref" in node:
            rest = {key: it for key, it in node.items() if key != "$ref"}
            target = target_of(node["$ref"], self._schema)
            yield from self._of(_both(target, rest), depth + 1)
            return
        for key in ("anyOf", "oneOf"):
            if isinstance(parts := node.get(key), list):
                rest = {name: it for name, it in node.items() if name != key}
                yield from _in_turn(self._of(_both(part, rest), depth + 1) for part in parts)
                return
        if isinstance(parts := node.get("allOf"), list):
            merged: JsonValue = {name: it for name, it in node.items() if name != "allOf"}
            for part in parts:
                whole = isinstance(part, dict) and target_of(part.get("$ref"), self._schema)
                merged = _both(whole or part, merged)
            yield from self._of(merged, depth + 1)
            return
        # Without a type, a rule for one kind allows every other kind, but is not meant to.
        meant = [kind for kind, rules in _RULES.items() if not rules.isdisjoint(node)]
        kinds = node.get("type", meant or list(_KINDS))
        for kind in kinds if isinstance(kinds, list) else [kinds]:
            yield from self._of_kind(str(kind), node, depth)

    def _of_kind(self, kind: str, node: dict[str, JsonValue], depth: int) -> Iterator[JsonValue]:
        match kind:
            case "object":
                yield from self._objects(node, depth)
            case "array":
                yield from self._arrays(node, depth)
            case "string" if "pattern" not in node:
                length = node.get("minLength", 0)
                length = min(length, 1000) if isinstance(length, int) else 0
                yield "text".ljust(length, "x")
                yield "é".ljust(length, "x")
                yield "x" * length
            case "integer" | "number":
                limits = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
                ends = [it for key in limits if isinstance(it := node.get(key), int | float)]
                step = node.get("multipleOf")
                steps = [step] if isinstance(step, int | float) else []
                yield from (1, 1.0, 10**20, 0, -1, *steps)
                yield from (end + off for end in ends for off in (0, 1, -1))
                if kind == "number":
                    yield from (0.5, *(end + off for end in ends for off in (0.5, -0.5)))
            case "boolean":
                yield from (True, False)
            case "null":
                yield None
            case _:
                pass

    def _objects(self, node: dict[str, JsonValue], depth: int) -> Iterator[JsonValue]:
        properties = node.get("properties")
        named: dict[str, JsonValue] = properties if isinstance(properties, dict) else {}
        required = node.get("required")
        needed = set(map(str, required)) if isinstance(required, list) else set[str]()
        values = {name: self._of(it, depth + 1) for name, it in named.items()}
        values |= {name: ["x"] for name in needed - named.keys()}
        values = {name: its for name, its in values.items() if its}
        least = {name: its[0] for name, its in values.items() if name in needed}
        yield least
        if "propertyNames" not in node:  # which may have a pattern
            others = self._of(node.get("additionalProperties", True), depth + 1)
            values |= {_UNKNOWN: others[:2]} if others else {}
        # All values in a few objects, and each of them without the others.
        for number in range(max(map(len, values.values()), default=0)):
            yield {name: its[number % len(its)] for name, its in values.items()}
        yield from _in_turn([{**least, name: it} for it in its] for name, its in values.items())

    def _arrays(self, node: dict[str, JsonValue], depth: int) -> Iterator[JsonValue]:
        items, least = node.get("items", True), node.get("minItems", 0)
        if isinstance(items, list):
            return
        values = self._of(items, depth + 1)
        places = node.get("prefixItems")
        firsts = [self._of(it, depth + 1)[:1] for it in places] if isinstance(places, list) else []
        first = [value for its in firsts for value in its]
        more = min(least, 20) - len(first) if isinstance(least, int) else 0
        yield [*first, *values]
        yield first
        yield from ([*first, *[value] * max(more, 1)] for value in values)


def _in_turn(lists: Iterable[list[JsonValue]]) -> Iterator[JsonValue]:
    """Yield the first value of each list, then the second of each, and so on."""
    for values in zip_longest(*lists, fillvalue=_NOTHING):
        yield from (it for it in values if it is not _NOTHING)


def _both(part: JsonValue, rest: JsonValue) -> JsonValue:
    """Return a schema that requires two, as far as samples are concerned."""
    if not isinstance(part, dict) or not isinstance(rest, dict):
        return rest if part is True else part
    made = {**rest, **part}
    for key in ("properties", "$defs", "definitions"):
        ours, theirs = rest.get(key), part.get(key)
        if isinstance(ours, dict) and isinstance(theirs, dict):
            made[key] = {**ours, **theirs}
    ours, theirs = rest.get("required"), part.get("required")
    if isinstance(ours, list) and isinstance(theirs, list):
        made["required"] = [*ours, *theirs]
    return made
