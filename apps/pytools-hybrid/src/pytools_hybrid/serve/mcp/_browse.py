"""The tools `list_categories` and `list_tools`: browsing by folder, without an index."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pydantic import RootModel

from pytools_hybrid.serve.browse import Categories, ToolBrowser, Tools
from pytools_hybrid.serve.mcp._tool import Arguments, ServedTool, answer
from pytools_hybrid.text import json_text

if TYPE_CHECKING:
    from mcp.types import CallToolResult

    from pytools_hybrid.serve.mcp._offered import Progress


class NoArguments(Arguments):
    """No arguments."""


class ListArguments(Arguments):
    """The categories whose tools to list."""

    categories: list[str]


class ListAnswer(RootModel[dict[str, Tools]]):
    """The tools of each category."""


def list_categories(browser: ToolBrowser) -> ServedTool[NoArguments]:
    """Make the tool over a tree of tools."""

    async def about() -> str:
        return "List the categories of tools, by source."

    async def run(_: NoArguments, _progress: Progress) -> CallToolResult:
        structured = (await asyncio.to_thread(browser.categories)).model_dump()
        return answer(structured, json_text(structured))

    return ServedTool(
        name="list_categories",
        title="List categories",
        arguments=NoArguments,
        result=Categories,
        about=about,
        run=run,
    )


def list_tools(browser: ToolBrowser) -> ServedTool[ListArguments]:
    """Make the tool over a tree of tools."""

    async def about() -> str:
        return "List the source files of the tools in some categories."

    async def run(asked: ListArguments, _progress: Progress) -> CallToolResult:
        found = await asyncio.to_thread(browser.tools, asked.categories)
        structured = ListAnswer(found).model_dump()
        return answer(structured, json_text(structured))

    return ServedTool(
        name="list_tools",
        title="List tools",
        arguments=ListArguments,
        result=ListAnswer,
        about=about,
        run=run,
    )
