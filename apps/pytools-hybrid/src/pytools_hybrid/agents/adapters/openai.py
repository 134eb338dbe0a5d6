"""For OpenAI: the client-executed tool search of the Responses API."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pytools_hybrid.agents.corpus import SEARCH_DESCRIPTION, ToolCorpus, ToolDefinition

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from openai.types.responses import (
        FunctionToolParam,
        ResponseToolSearchCall,
        ToolSearchToolParam,
    )
    from openai.types.responses.response_tool_search_output_item_param_param import (
        ResponseToolSearchOutputItemParamParam as ToolSearchOutput,
    )

    from pytools_hybrid.agents.functions import ToolFunction

__all__ = ["ClientToolSearch", "function_tool", "search_output", "search_query", "search_tool"]


class ClientToolSearch:
    """Keeps tools out of the model's context until it searches for them.

    Send `search_tool()` as a tool with each request, and answer each `tool_search_call` with
    `output`. The model then calls the functions that it found like any other.

    Args:
        tools: The definitions of the functions.
        corpus: Ranks the tools; by default a new one.
        limit: The maximum number of results.
    """

    def __init__(
        self,
        tools: Sequence[FunctionToolParam],
        corpus: ToolCorpus | None = None,
        *,
        limit: int | None = None,
    ) -> None:
        self._tools = {tool["name"]: tool for tool in tools}
        self._limit = limit
        self._corpus = corpus or ToolCorpus()
        self._definitions = [
            ToolDefinition(
                name=name,
                description=tool.get("description") or "",
                input_schema=tool.get("parameters") or {},
            )
            for name, tool in self._tools.items()
        ]

    async def output(self, call: ResponseToolSearchCall) -> ToolSearchOutput:
        """Answer a search with the definitions of the functions that fit."""
        names = await self._corpus.rank(search_query(call), self._definitions, limit=self._limit)
        return search_output(call, (self._tools[name] for name in names))


def search_tool() -> ToolSearchToolParam:
    """Return the tool definition that leaves the search to the client."""
    return {
        "type": "tool_search",
        "execution": "client",
        "description": SEARCH_DESCRIPTION,
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string"}},
            "required": ["query"],
            "additionalProperties": False,
        },
    }


def search_query(call: ResponseToolSearchCall) -> str:
    """Return the query of a search."""
    if not isinstance(call.arguments, dict):
        return ""
    return str(cast("dict[str, object]", call.arguments).get("query", ""))


def search_output(
    call: ResponseToolSearchCall, tools: Iterable[FunctionToolParam]
) -> ToolSearchOutput:
    """Return the answer to a search as an item for the `input` of the next request."""
    return {
        "type": "tool_search_output",
        "call_id": call.call_id,
        "execution": "client",
        "status": "completed",
        "tools": [{**tool, "defer_loading": True} for tool in tools],
    }


def function_tool(function: ToolFunction) -> FunctionToolParam:
    """Return the definition of a tool that `pytools_hybrid.load_tool` returned."""
    return {
        "type": "function",
        "name": function.name,
        "description": function.description,
        "parameters": function.input_schema,
        # A strict schema must require every property.
        "strict": False,
    }
