"""Results that include how to call a tool, so that finding and using it takes only two calls."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel

from pytools_hybrid.serve.calls import compact_form
from pytools_hybrid.text import first_sentences

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytools_hybrid.serve.calls import CallableTool
    from pytools_hybrid.serve.results import ToolResult

# Nine in ten answers with five tools have at most 700 tokens (benchmarks/tokens.py). Agents that
# need more call describe_tool.
_FIRST_DESCRIPTION, _DESCRIPTION = 400, 160
_WHOLE_CHARACTERS, _FORM_CHARACTERS = 900, 240
_DEEPEST = 40
_NAMED = {"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"}
_DATA = {"const", "default", "enum", "examples", "required"}


class CallableResult(BaseModel):
    """A tool that was found, and how to call it."""

    id: str
    description: str
    confidence: float
    hints: list[str] | None = None
    input_schema: dict[str, Any] | None = None
    input: str | None = None
    not_callable: str | None = None
    also: list[str] | None = None
    note: str | None = None


class CallableAnswer(BaseModel):
    """The tools found, best first."""

    result: list[CallableResult]


def callable_results(
    results: Sequence[ToolResult], tools: Iterable[CallableTool]
) -> list[CallableResult]:
    """Return results with each tool's input: the first tool's schema, one line for the others."""
    return [
        _result(result, tool, is_first=place == 0)
        for place, (result, tool) in enumerate(zip(results, tools, strict=True))
    ]


def _result(result: ToolResult, tool: CallableTool, *, is_first: bool) -> CallableResult:
    length = _FIRST_DESCRIPTION if is_first else _DESCRIPTION
    told: dict[str, Any] = {
        "id": result.id,
        "description": _begin(result.description, length),
        "confidence": result.confidence,
    }
    if tool.hints:
        told["hints"] = list(tool.hints)
    if result.also:
        told["also"] = result.also
    if tool.refusal:
        return CallableResult(**told, not_callable=tool.refusal)
    if tool.schema is None:
        return CallableResult(**told, input="see describe_tool")
    if is_first:
        whole = _without_titles(tool.schema, _DEEPEST)
        if len(json.dumps(whole)) <= _WHOLE_CHARACTERS:
            return CallableResult(**told, input_schema=whole)
    length = _WHOLE_CHARACTERS if is_first else _FORM_CHARACTERS
    return CallableResult(**told, input=compact_form(tool.schema, length=length))


def _begin(text: str, length: int) -> str:
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
