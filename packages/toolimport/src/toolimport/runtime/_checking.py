"""Checking arguments against a tool's schema before anything is sent."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

_SHOWN_PROBLEMS = 2
_LOOKED_AT = 50
_SHOWN_CHARACTERS = 60
_SHOWN_CHOICES = 20


def argument_problems(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what is wrong with some arguments, in at most two sentences; none if they are valid.

    Patterns are ignored, because an untrusted regular expression may take forever. So are schemas
    that are invalid or large. The server checks everything anyway.
    """
    from toolimport.connect._schemas import argument_validator

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
            extra = [_shown(name) for name in given if name not in known]
            where = f" in {path}" if path else ""
            return f"There is no argument {', '.join(extra[:_SHOWN_CHOICES])}{where}."
        case "enum":
            choices = ", ".join(map(_shown, error.validator_value[:_SHOWN_CHOICES]))
            return f"{place} is {_shown(error.instance)}; it must be one of {choices}."
        case "type":
            wanted = error.validator_value
            kinds = wanted if isinstance(wanted, str) else " or ".join(wanted)
            return f"{place} is {_shown(error.instance)}; it must be of type {kinds}."
        case _:
            rule = f"{error.validator}: {_shown(error.validator_value)}"
            return f"{place} is {_shown(error.instance)}, which does not fit its schema ({rule})."


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
