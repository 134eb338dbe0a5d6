"""For Claude: the client-side tool search of the Messages API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytools_hybrid.agents.corpus import SEARCH_DESCRIPTION, ToolCorpus, ToolDefinition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anthropic.types import (
        ToolParam,
        ToolReferenceBlockParam,
        ToolResultBlockParam,
        ToolUseBlock,
    )

    from pytools_hybrid.agents.functions import ToolFunction

__all__ = ["ClientToolSearch", "tool_param"]


class ClientToolSearch:
    """Keeps tools out of the model's context until it searches for them.

    Send `tools` with each request, and answer each call of the search with `result`. The model then
    calls the tools that it found like any other.

    Args:
        tools: The definitions of the tools.
        corpus: Ranks the tools; by default a new one.
        limit: The maximum number of results.
        name: The name of the search tool.

    Raises:
        ValueError: One of the tools has the same name.
    """

    def __init__(
        self,
        tools: Sequence[ToolParam],
        corpus: ToolCorpus | None = None,
        *,
        limit: int | None = None,
        name: str = "search_tools",
    ) -> None:
        if any(tool["name"] == name for tool in tools):
            raise ValueError(f"a tool has the name of the search, {name!r}; choose another one")
        self.name = name
        self._limit = limit
        self._corpus = corpus or ToolCorpus()
        self._deferred: list[ToolParam] = [{**tool, "defer_loading": True} for tool in tools]
        self._definitions = [
            ToolDefinition(
                name=tool["name"],
                description=tool.get("description"),
                input_schema=tool["input_schema"],
            )
            for tool in tools
        ]

    @property
    def tools(self) -> list[ToolParam]:
        """The `tools` of a request: the search tool, and all others deferred."""
        schema: dict[str, object] = {
            "type": "object",
            "properties": {"query": {"type": "string"}},
            "required": ["query"],
        }
        search: ToolParam = {
            "name": self.name,
            "description": SEARCH_DESCRIPTION,
            "input_schema": schema,
        }
        return [search, *self._deferred]

    async def result(self, call: ToolUseBlock) -> ToolResultBlockParam:
        """Answer a search with references to the tools that fit."""
        query = str(call.input.get("query", ""))
        names = await self._corpus.rank(query, self._definitions, limit=self._limit)
        # The API refuses an empty list.
        content: list[ToolReferenceBlockParam] = [
            {"type": "tool_reference", "tool_name": name} for name in names
        ]
        return {
            "type": "tool_result",
            "tool_use_id": call.id,
            "content": content or "No tool matches. Rephrase the query.",
        }


def tool_param(function: ToolFunction) -> ToolParam:
    """Return the definition of a tool that `pytools_hybrid.load_tool` returned."""
    return {
        "name": function.name,
        "description": function.description,
        "input_schema": function.input_schema,
    }
