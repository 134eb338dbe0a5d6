"""How a tool's arguments are shown to models, which pay for every token."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from pytools_hybrid.text import first_sentences, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytools_hybrid.serve.calls import CallableTool

CALLABLE_FIELDS = (
    *("id", "description", "confidence", "hints"),
    *("input_schema", "input", "not_callable", "also"),
)
"""The fields of a result for an agent that calls tools."""

# Nine in ten answers with five tools have at most 700 tokens (benchmarks/tokens.py). Agents that
# need more call describe_tool.
_FIRST_DESCRIPTION, _DESCRIPTION = 400, 160
_WHOLE_CHARACTERS, _FORM_CHARACTERS = 900, 240
_DEEPEST_SCHEMA = 40
_NAMED = {"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"}
_DATA = {"const", "default", "enum", "examples", "required"}
_DEEPEST = 5
_CHOICES = 12
_CHOICE_CHARACTERS = 40
_NAME_CHARACTERS = 64
_NUMBERS = {"minimum": ">=", "maximum": "<="}


def compact_form(schema: Mapping[str, Any], *, length: int) -> str:
    """Write a schema as `{path: string, head?: integer, mode?: "fast"|"slow"}`.

    Required properties come first. Properties that do not fit are counted, so that the line does
    not look complete.

    Args:
        schema: The untrusted JSON Schema of an object.
        length: The approximate maximum length.
    """
    parts = list(_properties(schema, schema, _DEEPEST))
    # The contents of a large one can be requested, but its existence must be visible.
    brief = list(_properties(schema, schema, 1))
    shown, size = list[str](), 2
    for whole, short in zip(parts, brief, strict=True):
        part = whole if size + len(whole) + 2 <= length else short
        size += len(part) + 2
        if size > length and shown:
            break
        shown.append(one_line(part, length))
    if left := len(parts) - len(shown):
        shown.append(f"… {left} more")
    return "{" + ", ".join(shown) + "}"


def _properties(schema: Mapping[str, Any], whole: Mapping[str, Any], depth: int) -> Iterator[str]:
    properties, required = schema.get("properties"), schema.get("required")
    is_open = {"properties", "anyOf", "oneOf", "allOf", "$ref"}.isdisjoint(schema)
    others = schema.get("additionalProperties", is_open)
    named = cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}
    needed = set(cast("list[str]", required)) if isinstance(required, list) else set[str]()
    for name in sorted(named, key=lambda it: it not in needed):
        mark = "" if name in needed else "?"
        kind = _type(named[name], whole, depth)
        if mark and _is_null_by_default(named[name]):
            # It is omitted rather than null.
            kind = kind.removesuffix("|null")
        yield f"{_name(name)}{mark}: {kind}"
    if others is not False or schema.get("patternProperties"):
        yield f"[name]: {_type(others, whole, depth)}"


def _is_null_by_default(schema: object) -> bool:
    found = cast("dict[str, object]", schema) if isinstance(schema, dict) else {}
    return "default" in found and found["default"] is None


def _type(schema: object, whole: Mapping[str, Any], depth: int) -> str:
    if not isinstance(schema, dict) or depth == 0:
        return "any"
    found = cast("dict[str, Any]", schema)
    if isinstance(reference := found.get("$ref"), str):
        return _type(_target(reference, whole), whole, depth - 1)
    if isinstance(choices := found.get("enum"), list) and choices:
        return _choices(cast("list[object]", choices))
    if "const" in found:
        return _value(found["const"])
    for key in ("anyOf", "oneOf"):
        if isinstance(several := found.get(key), list) and several:
            types = [_type(it, whole, depth - 1) for it in cast("list[object]", several)]
            return "|".join(dict.fromkeys(types))
    kind = found.get("type")
    if isinstance(kind, list):
        names = [_named(str(it), found, whole, depth) for it in cast("list[object]", kind)]
        return "|".join(names) or "any"
    if isinstance(kind, str):
        return _named(kind, found, whole, depth)
    return _named("object", found, whole, depth) if "properties" in found else "any"


def _named(kind: str, schema: Mapping[str, Any], whole: Mapping[str, Any], depth: int) -> str:
    if kind == "array":
        item = _type(schema.get("items"), whole, depth - 1)
        return f"({item})[]" if "|" in item else f"{item}[]"
    if kind == "object" and schema.get("properties"):
        return "{" + ", ".join(_properties(schema, whole, depth - 1)) + "}"
    limits = [f"{sign}{schema[key]}" for key, sign in _NUMBERS.items() if _is_number(schema, key)]
    return f"{one_line(kind, _NAME_CHARACTERS)}({', '.join(limits)})" if limits else kind


def _is_number(schema: Mapping[str, Any], key: str) -> bool:
    return isinstance(schema.get(key), int | float)


def _choices(values: list[object]) -> str:
    shown = "|".join(map(_value, values[:_CHOICES]))
    left = len(values) - _CHOICES
    return f"{shown}|… {left} more" if left > 0 else shown


def _value(value: object) -> str:
    return one_line(json.dumps(value, ensure_ascii=False), _CHOICE_CHARACTERS)


def _name(name: str) -> str:
    return name if name.isidentifier() else one_line(json.dumps(name), _NAME_CHARACTERS)


def _target(reference: str, whole: Mapping[str, Any]) -> object:
    found: object = whole
    for key in reference.removeprefix("#").split("/")[1:]:
        if not isinstance(found, dict):
            return None
        found = cast("dict[str, object]", found).get(key.replace("~1", "/").replace("~0", "~"))
    return found


def callable_values(
    values: Mapping[str, Any], tool: CallableTool, *, is_first: bool
) -> dict[str, Any]:
    """Return the values of a result for an agent that calls tools.

    The first result has the tool's input as a schema if it is small, the others in one line.

    Args:
        values: The values of `ToolResult`.
        tool: The tool, as it can be called.
        is_first: Whether it is the best result.
    """
    length = _FIRST_DESCRIPTION if is_first else _DESCRIPTION
    told: dict[str, Any] = {
        "id": values["id"],
        "description": _beginning(values["description"], length),
        "confidence": values["confidence"],
    }
    if tool.hints:
        told["hints"] = list(tool.hints)
    if tool.refusal:
        told["not_callable"] = tool.refusal
    elif tool.schema is None:
        told["input"] = "see describe_tool"
    else:
        whole = _without_titles(tool.schema, _DEEPEST_SCHEMA) if is_first else None
        if whole is not None and len(json.dumps(whole)) <= _WHOLE_CHARACTERS:
            told["input_schema"] = whole
        else:
            length = _WHOLE_CHARACTERS if is_first else _FORM_CHARACTERS
            told["input"] = compact_form(tool.schema, length=length)
    if "also" in values:
        told["also"] = values["also"]
    return told


def _beginning(text: str, length: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else f"{first_sentences(line, length)} …"


def _without_titles(schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
    """Return a schema without the titles that generators derive from names.

    Anything nested too deeply becomes an empty schema, which allows any value.
    """
    return {
        key: _untitled(key, value, depth)
        for key, value in schema.items()
        if key != "title" or not isinstance(value, str)
    }


def _untitled(key: str, value: object, depth: int) -> object:
    if not isinstance(value, dict | list):
        return value
    if depth == 0:
        return {}
    if isinstance(value, list):
        kind = key if key in _DATA else ""
        return [_untitled(kind, item, depth - 1) for item in cast("list[object]", value)]
    inner = cast("dict[str, object]", value)
    if key in _DATA or key in _NAMED:
        # A key "title" is a property's name here.
        kind = key if key in _DATA else ""
        return {name: _untitled(kind, item, depth - 1) for name, item in inner.items()}
    return _without_titles(inner, depth - 1)
