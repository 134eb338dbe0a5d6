"""Reading JSON that strict parsers reject because of one invalid part."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import JsonValue

__all__ = ["read_leniently"]

# pydantic reads JSON up to a depth of 200.
_DEEPEST = 180
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def read_leniently(text: str, notes: list[str] | None = None) -> JsonValue:
    """Parse JSON with lone surrogates, control characters, NaN, huge numbers or deep nesting.

    Args:
        text: The JSON.
        notes: Receives a clause for each kind of change: lone surrogates become U+FFFD, parts
            nested too deeply and integers that are too long for Python become text.

    Raises:
        ValueError: The text is invalid in other ways.
    """
    notes = [] if notes is None else notes
    shallow = _shallow(text)
    if shallow is not text:
        notes.append(f"parts nested more than {_DEEPEST} levels deep are JSON text")

    def number(digits: str) -> int | str:
        try:
            return int(digits)
        except ValueError:
            notes.append(f"an integer of {len(digits):,} digits is text")
            return digits

    try:
        read: JsonValue = json.loads(shallow, strict=False, parse_int=number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    written = json.dumps(read, ensure_ascii=False)
    if _LONE_SURROGATE.search(written):
        notes.append("lone surrogates in it were replaced")
        read = json.loads(_LONE_SURROGATE.sub("\ufffd", written))
    return read


def _shallow(text: str) -> str:
    """Replace objects and lists that are nested too deeply by their JSON as text."""
    kept: list[str] = []
    depth = start = begin = 0
    for found in _BRACKETS.finditer(text):
        if found[0] in "[{":
            depth += 1
            if depth == _DEEPEST + 1:
                begin = found.start()
                kept.append(text[start:begin])
        elif found[0] in "]}":
            depth -= 1
            if depth == _DEEPEST:
                start = found.end()
                kept.append(json.dumps(text[begin:start]))
    return "".join((*kept, text[start:])) if kept and depth <= _DEEPEST else text
