"""Reading JSON that strict parsers reject because of one invalid part."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import JsonValue

__all__ = ["has_half_characters", "read_leniently", "without_half_characters"]

# pydantic reads JSON up to a depth of 200.
_DEEPEST = 180
# Python refuses to read longer numbers.
_DIGITS = 300
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_HALF = re.compile("[\ud800-\udfff]")


def read_leniently(text: str) -> JsonValue:
    """Parse JSON with lone surrogates, control characters, NaN or deep nesting.

    Values nested too deeply become true, so that a schema allows anything there.

    Raises:
        ValueError: The text is invalid in other ways.
    """
    try:
        read: JsonValue = json.loads(_cut(text), strict=False, parse_int=_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return read


def has_half_characters(text: str) -> bool:
    """Return whether a text has lone surrogates, which cannot be written or sent."""
    return _HALF.search(text) is not None


def without_half_characters(value: JsonValue) -> JsonValue:
    """Return a value with every lone surrogate in its texts replaced by U+FFFD."""
    if isinstance(value, str):
        return _HALF.sub("\ufffd", value)
    if isinstance(value, list):
        return [without_half_characters(item) for item in value]
    if isinstance(value, dict):
        return {_HALF.sub("\ufffd", key): without_half_characters(it) for key, it in value.items()}
    return value


def _cut(text: str) -> str:
    kept: list[str] = []
    depth = start = 0
    for found in _BRACKETS.finditer(text):
        if found[0] in "[{":
            depth += 1
            if depth == _DEEPEST + 1:
                kept.append(text[start : found.start()])
        elif found[0] in "]}":
            depth -= 1
            if depth == _DEEPEST:
                kept.append("true")
                start = found.end()
    return "".join((*kept, text[start:])) if depth <= _DEEPEST else text


def _number(digits: str) -> int | float:
    return int(digits) if len(digits) <= _DIGITS else float(digits)
