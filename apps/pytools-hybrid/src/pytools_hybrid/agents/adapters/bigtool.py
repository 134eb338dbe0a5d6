"""For langgraph-bigtool: the retriever of an agent that holds many tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anyio.from_thread import start_blocking_portal
from langchain_core.utils.function_calling import convert_to_openai_tool

from pytools_hybrid.agents._corpus import ToolCorpus
from pytools_hybrid.agents._definitions import ToolDefinition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from langchain_core.tools import BaseTool

__all__ = ["retrieval_functions"]


def retrieval_functions(
    registry: Mapping[str, BaseTool | Callable[..., Any]],
    corpus: ToolCorpus | None = None,
    *,
    limit: int | None = None,
    threshold: float | None = None,
) -> tuple[Callable[[str], list[str]], Callable[[str], Awaitable[list[str]]]]:
    """Return `retrieve_tools_function` and `retrieve_tools_coroutine` of `create_agent`.

    Args:
        registry: The `tool_registry` of the agent; it may change while the agent runs.
        corpus: What ranks; one of its own by default.
        limit: How many tools a search gives at most.
        threshold: As for `ToolCorpus.rank`.
    """
    corpus = corpus or ToolCorpus()

    async def aretrieve_tools(query: str) -> list[str]:
        """Find tools by what they should do, in plain language; they can be called afterwards."""
        held: dict[str, str] = {}
        definitions: list[ToolDefinition] = []
        for tool_id, tool in registry.items():
            told = convert_to_openai_tool(tool)["function"]
            # Two ids of a registry may hold tools of one name.
            name = f"{told['name']} {tool_id}" if told["name"] in held else told["name"]
            held[name] = tool_id
            definitions.append(
                ToolDefinition(
                    name=name,
                    description=told.get("description"),
                    input_schema=told.get("parameters"),
                )
            )
        names = await corpus.rank(query, definitions, limit=limit, threshold=threshold)
        return [held[name] for name in names]

    def retrieve_tools(query: str) -> list[str]:
        """Find tools by what they should do, in plain language; they can be called afterwards."""
        # In a loop of its own: this thread may be inside one that is running.
        with start_blocking_portal() as portal:
            return portal.call(aretrieve_tools, query)

    return retrieve_tools, aretrieve_tools
