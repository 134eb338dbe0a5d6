"""JSON Schema: what a server means, repairing it, and checking values against it."""

from __future__ import annotations

import json
from functools import cache, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import JsonValue

# The keywords whose value is a schema, a list of schemas, and an object of schemas.
ONE = frozenset(
    {
        *("additionalProperties", "items", "contains", "propertyNames", "not", "if", "then"),
        *("else", "additionalItems", "unevaluatedProperties", "unevaluatedItems"),
    }
)
MANY = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_CLOSING = ("additionalProperties", "unevaluatedProperties")
_COMBINED = frozenset({"allOf", "anyOf", "oneOf", "$ref"})
_ABOUT = frozenset({"title", "description", "default", "deprecated"})
_OBJECT = {"type": "object"}
_MOST_VALUES = 5_000
_VALIDATORS = 256
_PROBLEM_CHARACTERS = 300
_SHOWN_PROBLEMS = 2
_LOOKED_AT = 50
_SHOWN_CHARACTERS = 60
_SHOWN_CHOICES = 20


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
        hidden = {"pattern"}
        if node.get("patternProperties"):
            hidden |= {"patternProperties", *_CLOSING}
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

    def has_default(schema: JsonValue) -> bool:
        given = schema if isinstance(schema, dict) else {}
        target = target_of(given.get("$ref"), whole)
        return "default" in given or (isinstance(target, dict) and "default" in target)

    needed = [it for it in required if not has_default(properties.get(str(it)))]
    strange = [it for it in needed if isinstance(it, str) and it not in properties]
    if strange and _COMBINED.isdisjoint(node):
        is_closed = any(node.get(key) is False for key in _CLOSING)
        if is_closed and not node.get("patternProperties"):
            needed = [it for it in needed if it not in strange]
        else:
            others = node.get("additionalProperties", {})
            node["properties"] = properties | dict.fromkeys(strange, others)
    return node | {"required": needed}


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


def input_schema(schema: JsonValue, notes: list[str]) -> dict[str, Any]:
    """Return a schema that the library accepts for a tool's parameters."""
    if not isinstance(schema, dict) or not _is_of_object(schema):
        notes.append("Params allows anything: its schema is not that of an object")
        return dict(_OBJECT)
    return _of_object(schema, notes)


def output_schema(schema: JsonValue, notes: list[str], *, is_old: bool) -> dict[str, Any] | None:
    """Return a schema for checking a tool's results; None if they are text.

    `notes` receives a sentence for each part that could not be used unchanged. If the protocol
    `is_old`, it only allows objects as results.
    """
    if schema is None:
        return None
    from jsonschema import SchemaError  # type: ignore[import-untyped]
    from jsonschema.validators import validator_for  # type: ignore[import-untyped]

    if not isinstance(schema, dict) or (is_old and not _is_of_object(schema)):
        notes.append("its results are texts: their schema is not that of an object")
        return None
    try:
        made = _without_dangling(schema, schema)
        made = _of_object(made, notes) if is_old else made
        # Checking takes long, because choices are compared pairwise.
        if _size_of(made) > _MOST_VALUES:
            raise ValueError("its schema is too large")
        validator_for(made).check_schema(made)
    except (ValueError, RecursionError) as error:
        problem = str(error)
    except SchemaError as error:
        problem = f"its schema is invalid: {error.message[:200]}"
    else:
        return made
    notes.append(f"Result allows anything: {problem}")
    return dict(_OBJECT)


def _size_of(value: JsonValue) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_size_of, inner))


def _validator(schema: JsonValue, *, is_old: bool) -> Any:  # noqa: ANN401 - a library without types
    """Return a validator of results; None if there is nothing to check."""
    from jsonschema.validators import validator_for
    from referencing import Registry

    usable = output_schema(schema, [], is_old=is_old)
    # With an empty registry, no reference leads out of the schema.
    return None if usable is None else validator_for(usable)(usable, registry=Registry())


@lru_cache(_VALIDATORS)
def argument_validator(text: str) -> Any:  # noqa: ANN401
    """Return a validator for a schema, given as JSON; None if there is nothing to check.

    It ignores patterns, because an untrusted regular expression may take forever.
    """
    return _validator(without_patterns(json.loads(text)), is_old=False)


class ResultCheck:
    """Checks the results of one tool; its schema is checked with the first result."""

    def __init__(self, schema: JsonValue, *, is_old: bool) -> None:
        self._make = cache(lambda: None if schema is None else _validator(schema, is_old=is_old))

    def problem(self, value: JsonValue, *, is_given: bool) -> str:
        """Return what is wrong with a result's structured content; "" if it is valid."""
        if (validator := self._make()) is None:
            return ""
        import jsonschema.exceptions  # type: ignore[import-untyped]
        from referencing.exceptions import Unresolvable

        if not is_given:
            return "it has no structured content, although its tool has an output schema"
        try:
            errors = validator.iter_errors(value)
            error = cast(
                "Any",
                jsonschema.exceptions.best_match(errors),  # pyright: ignore[reportUnknownMemberType]
            )
        except (Unresolvable, RecursionError):
            return ""
        if error is None:
            return ""
        place = ".".join(map(str, error.absolute_path))
        problem = ": ".join(it for it in (place, error.message) if it)[:_PROBLEM_CHARACTERS]
        return f"its structured content does not match its tool's output schema: {problem}"


def _of_object(schema: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    made = schema | _OBJECT
    if not isinstance(made.get("$schema"), str):
        made.pop("$schema", None)
    properties: JsonValue = made.get("properties") or {}
    required: JsonValue = made.get("required") or []
    if isinstance(properties, dict):
        wrong = [name for name, it in properties.items() if not isinstance(it, dict | bool)]
        notes += [f"{name} may be anything: its schema is invalid" for name in wrong]
        made["properties"] = properties | dict.fromkeys(wrong, True)
    else:
        notes.append("its properties may be anything: they are not an object")
        del made["properties"]
    if isinstance(required, list):
        made["required"] = [name for name in required if isinstance(name, str)]
    else:
        notes.append("nothing is required: 'required' is not a list")
    if not isinstance(required, list) or not made["required"]:
        made.pop("required", None)
    return made


def _without_dangling(value: JsonValue, schema: dict[str, JsonValue]) -> Any:  # noqa: ANN401
    """Remove dangling references from a schema, which would make every result invalid."""
    if isinstance(value, list):
        return [_without_dangling(item, schema) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _without_dangling(item, schema)
        for key, item in value.items()
        if key != "$ref" or not isinstance(item, str) or target_of(item, schema) is not None
    }


def _is_of_object(schema: dict[str, JsonValue]) -> bool:
    kind = schema.get("type") or "object"
    return isinstance(kind, str | list) and "object" in kind


def argument_problems(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what is wrong with some arguments, in at most two sentences."""
    try:
        validator = argument_validator(json.dumps(schema, sort_keys=True))
        if validator is None:
            return ()
        errors = islice(validator.iter_errors(dict(arguments)), _LOOKED_AT)
        # Each missing argument is an error of its own, and its sentence names all of them.
        sentences = dict.fromkeys(_sentence(error) for error in errors)
        return tuple(sentences)[:_SHOWN_PROBLEMS]
    except Exception:  # noqa: BLE001 - of a stranger's schema: the server has the last word
        return ()


def _sentence(error: Any) -> str:  # noqa: ANN401 - a library without types
    path = ".".join(map(str, error.absolute_path))
    place = path or "the arguments"
    match error.validator:
        case "required":
            given = cast("Mapping[str, Any]", error.instance)
            missing = [name for name in error.validator_value if name not in given]
            names = ", ".join(f"{path}.{name}" if path else name for name in missing)
            return f"{names} {'is' if len(missing) == 1 else 'are'} missing."
        case "additionalProperties" | "unevaluatedProperties" if isinstance(error.instance, dict):
            known = error.schema.get("properties", {})
            given = cast("Mapping[str, Any]", error.instance)
            extra = [_cut(name) for name in given if name not in known]
            where = f" in {path}" if path else ""
            return f"There is no argument {', '.join(extra[:_SHOWN_CHOICES])}{where}."
        case "enum":
            choices = ", ".join(map(_cut, error.validator_value[:_SHOWN_CHOICES]))
            return f"{place} is {_cut(error.instance)}; it must be one of {choices}."
        case "type":
            wanted = error.validator_value
            kinds = wanted if isinstance(wanted, str) else " or ".join(wanted)
            return f"{place} is {_cut(error.instance)}; it must be of type {kinds}."
        case _:
            rule = f"{error.validator}: {_cut(error.validator_value)}"
            return f"{place} is {_cut(error.instance)}, which does not fit its schema ({rule})."


def _cut(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
