"""Repairing tools' schemas, and checking results against them."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from toolimport._schemas import target_of, without_patterns

if TYPE_CHECKING:
    from pydantic import JsonValue

_OBJECT = {"type": "object"}
_MOST_VALUES = 5_000
_VALIDATORS = 256
_PROBLEM_CHARACTERS = 300


def input_schema(schema: JsonValue, notes: list[str]) -> dict[str, Any]:
    """Return a schema that the library accepts for a tool's parameters."""
    if not isinstance(schema, dict) or not _is_of_object(schema):
        notes.append("Params allows anything: its schema is not that of an object")
        return dict(_OBJECT)
    return _of_object(schema, notes)


def output_schema(schema: JsonValue, notes: list[str], *, is_old: bool) -> dict[str, Any] | None:
    """Return a schema for checking a tool's results; None if they are text.

    Args:
        schema: The schema from the server.
        notes: Receives a sentence for each part that could not be used unchanged.
        is_old: Whether the protocol only allows objects as results.
    """
    if schema is None:
        return None
    if not isinstance(schema, dict) or (is_old and not _is_of_object(schema)):
        notes.append("its results are texts: their schema is not that of an object")
        return None
    try:
        made = _resolved(schema, schema)
        made = _of_object(made, notes) if is_old else made
        _check_size(made)
        _check(made)
    except (ValueError, RecursionError) as error:
        notes.append(f"Result allows anything: {error}")
        return dict(_OBJECT)
    return made


@lru_cache(_VALIDATORS)
def argument_validator(text: str) -> Any:  # noqa: ANN401 - a library without types
    """Return a validator for a schema, given as JSON; None if there is nothing to check.

    It ignores patterns, because an untrusted regular expression may take forever.
    """
    from jsonschema.validators import validator_for  # type: ignore[import-untyped]
    from referencing import Registry

    schema = output_schema(without_patterns(json.loads(text)), [], is_old=False)
    # With an empty registry, no reference leads out of the schema.
    return None if schema is None else validator_for(schema)(schema, registry=Registry())


class ResultCheck:
    """Checks the results of one tool; its schema is checked with the first result."""

    def __init__(self, schema: JsonValue, *, is_old: bool) -> None:
        self._given = schema
        self._is_old = is_old
        self._validator: Any = None

    def problem(self, value: JsonValue, *, is_given: bool) -> str:
        """Return what is wrong with a result's structured content; "" if it is valid."""
        if self._given is None:
            return ""
        import jsonschema.exceptions  # type: ignore[import-untyped]
        from referencing.exceptions import Unresolvable

        if self._validator is None:
            self._validator = self._made()
        if self._validator is False:
            return ""
        if not is_given:
            return "it has no structured content, although its tool has an output schema"
        try:
            errors = self._validator.iter_errors(value)
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

    def _made(self) -> Any:  # noqa: ANN401 - a library without types
        from jsonschema.validators import validator_for  # type: ignore[import-untyped]
        from referencing import Registry

        schema = output_schema(self._given, [], is_old=self._is_old)
        # With an empty registry, no reference leads out of the schema.
        return False if schema is None else validator_for(schema)(schema, registry=Registry())


def _of_object(schema: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    made = schema | _OBJECT
    if not _is_text(made.get("$schema")):
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


def _resolved(value: JsonValue, schema: dict[str, JsonValue]) -> Any:  # noqa: ANN401
    """Remove dangling references from a schema, which would make every result invalid."""
    if isinstance(value, list):
        return [_resolved(item, schema) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _resolved(item, schema)
        for key, item in value.items()
        if key != "$ref" or not isinstance(item, str) or target_of(item, schema) is not None
    }


def _check_size(schema: JsonValue) -> None:
    """Reject a schema that would take long to check, because choices are compared pairwise."""
    left, waiting = _MOST_VALUES, [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
        left -= 1
        if left < 0:
            raise ValueError("its schema is too large")


def _check(schema: dict[str, Any]) -> None:
    from jsonschema import SchemaError
    from jsonschema.validators import validator_for

    try:
        validator_for(schema).check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"its schema is invalid: {error.message[:200]}") from None


def _is_of_object(schema: dict[str, JsonValue]) -> bool:
    kind = schema.get("type") or "object"
    return isinstance(kind, str | list) and "object" in kind


def _is_text(value: object) -> bool:
    return isinstance(value, str)
