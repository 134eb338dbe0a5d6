"""FastMCP's BM25SearchTransform, through the `search_tools` that it adds to a server."""

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

# The number of results is fixed for a server, and 5 by default.
_MAX_RESULTS = 10


class FastMCPSearch(Method):
    """A server with all tools, behind the transform."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._ids: dict[str, str] = {}

    @override
    def index(self, tools: Sequence[Tool], tree: Path) -> None:
        self._server = FastMCP("tools", on_duplicate="error")
        counts = Counter(tool.name for tool in tools)
        for tool in tools:
            # Names are unique within a server; if it combines several, each name gets a prefix.
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
