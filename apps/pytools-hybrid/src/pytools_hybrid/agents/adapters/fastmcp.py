"""For FastMCP: a transform that shows clients a search instead of a server's tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastmcp.server.context import Context  # noqa: TC002 - FastMCP reads the annotations
from fastmcp.server.transforms.search.base import BaseSearchTransform
from fastmcp.tools.base import Tool

from pytools_hybrid.agents.corpus import ToolCorpus, ToolDefinition

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HybridSearchTransform"]


class HybridSearchTransform(BaseSearchTransform):
    """Ranks a server's tools by words and meaning, for `FastMCP.add_transform`.

    Args:
        corpus: Ranks the tools; by default a new one.
        threshold: As for `ToolCorpus.rank`.
        options: Arguments of `BaseSearchTransform`, such as `max_results` and `always_visible`.
    """

    def __init__(
        self,
        corpus: ToolCorpus | None = None,
        *,
        threshold: float | None = None,
        **options: Any,  # noqa: ANN401 - the base's own
    ) -> None:
        super().__init__(**options)
        self._corpus = corpus or ToolCorpus()
        self._threshold = threshold

    def _make_search_tool(self) -> Tool:
        async def search_tools(
            query: Annotated[str, "What the tool should do, in plain language"],
            ctx: Context,
        ) -> Any:  # noqa: ANN401 - what the serializer makes
            """Find the tools that fit a request, best first, with the schemas to call them by."""
            hidden = await self._get_visible_tools(ctx)
            return await self._render_results(await self._search(hidden, query))

        return Tool.from_function(fn=search_tools, name=self._search_tool_name)

    async def _search(self, tools: Sequence[Tool], query: str) -> Sequence[Tool]:
        held = {tool.name: tool for tool in tools}
        names = await self._corpus.rank(
            query,
            [
                ToolDefinition(
                    name=name,
                    description=tool.description or "",
                    input_schema=tool.parameters or {},
                )
                for name, tool in held.items()
            ],
            limit=self._max_results,
            threshold=self._threshold,
        )
        return [held[name] for name in names]
