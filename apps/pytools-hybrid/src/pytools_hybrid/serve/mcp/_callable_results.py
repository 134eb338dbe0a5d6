"""Results that carry what a call needs, so that finding and using a tool takes two calls."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from pytools_hybrid.calls import compact_form
from pytools_hybrid.serve.results import ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytools_hybrid.calls import CallableTool

# The five of a search have at most 700 tokens together, which are about four characters each.
_WHOLE_CHARACTERS = 1100
_FORM_CHARACTERS = 380
# Those who call a tool through this server do not import it.
_OF_PYTHON = {"path", "signature"}


class CallableResult(ToolResult):
    """A tool that was found, and how it is called."""

    path: str = ""
    signature: str = ""
    hints: list[str] | None = None
    input_schema: dict[str, Any] | None = None
    input: str | None = None
    not_callable: str | None = None


class CallableAnswer(BaseModel):
    """The tools found, best first."""

    notes: list[str]
    result: list[CallableResult]


def callable_results(
    results: Sequence[ToolResult], tools: Iterable[CallableTool]
) -> list[ToolResult]:
    """Add to each result what a call needs: to the first its schema, to the others a line."""
    return [
        _result(result, tool, is_first=place == 0)
        for place, (result, tool) in enumerate(zip(results, tools, strict=True))
    ]


def _result(result: ToolResult, tool: CallableTool, *, is_first: bool) -> CallableResult:
    told = result.model_dump(exclude=_OF_PYTHON)
    if tool.hints:
        told["hints"] = list(tool.hints)
    if tool.refusal:
        return CallableResult(**told, not_callable=tool.refusal)
    if tool.schema is None:
        return CallableResult(**told, input="see describe_tool")
    if is_first and len(json.dumps(tool.schema)) <= _WHOLE_CHARACTERS:
        return CallableResult(**told, input_schema=dict(tool.schema))
    length = _WHOLE_CHARACTERS if is_first else _FORM_CHARACTERS
    return CallableResult(**told, input=compact_form(tool.schema, length=length))
