"""FastMCP's BM25SearchTransform, asked through the `search_tools` that it puts on a server."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fastmcp import FastMCP
from fastmcp.server.transforms.search import BM25SearchTransform
from fastmcp.tools import Tool as ServedTool
from sets import Tool
from typing_extensions import override

from peers import Method

__all__ = ["FastMCPSearch"]

# How many it gives is set once for a server; its default is 5.
_MAX_RESULTS = 10


class FastMCPSearch(Method):
    """A server with all the tools, and the transform before them."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._ids: dict[str, str] = {}

    @override
    def index(self, tools: Sequence[Tool], tree: Path) -> None:
        self._server = FastMCP("tools", on_duplicate="error")
        counts = Counter(tool.name for tool in tools)
        for tool in tools:
            # A server's names are unique; two servers behind one are told apart by a prefix.
            is_unique = counts[tool.name] == 1
            name = tool.name if is_unique else f"{tool.category}_{tool.name}"
            self._ids[name] = tool.id
            self._server.add_tool(
                ServedTool(
                    name=name, description=tool.description, parameters=dict(tool.parameters)
                )
            )
        self._server.add_transform(BM25SearchTransform(max_results=_MAX_RESULTS))

    @override
    def search(self, query: str, k: int) -> list[str]:
        answer = self._runner.run(self._server.call_tool("search_tools", {"query": query}))
        content = answer.structured_content or {}
        return [self._ids[found["name"]] for found in content["result"][:k]]

    @override
    def close(self) -> None:
        self._runner.close()
