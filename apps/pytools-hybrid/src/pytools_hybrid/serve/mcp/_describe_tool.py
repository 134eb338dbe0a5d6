"""The tool `describe_tool`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from pytools_hybrid.search import DetailLevel, ToolDescription
from pytools_hybrid.serve.mcp._tool import Arguments, ServedTool, answer
from pytools_hybrid.text import json_text

if TYPE_CHECKING:
    from mcp.types import CallToolResult

    from pytools_hybrid.index import Follower
    from pytools_hybrid.search import ToolSearch
    from pytools_hybrid.serve.mcp._tool import Progress


class DescribeArguments(Arguments):
    """Which tool, and how much of it."""

    id: Annotated[str, Field(description="Or a name that only one tool has")]
    detail: Annotated[
        Literal["summary", "schema", "full"],
        Field(description="full adds docstring, examples, usage"),
    ] = "schema"


def describe_tool(search: ToolSearch, follower: Follower) -> ServedTool[DescribeArguments]:
    """Make the tool over an open `ToolSearch`."""

    async def about() -> str:
        return "Show how to call a tool: signature and JSON Schemas."

    async def run(asked: DescribeArguments, progress: Progress) -> CallToolResult:
        await follower.looked(progress)
        described = await search.describe(asked.id, DetailLevel(asked.detail))
        structured = described.model_dump(exclude_none=True)
        return answer(structured, [json_text(structured)])

    return ServedTool(
        name="describe_tool",
        title="Describe a tool",
        arguments=DescribeArguments,
        result=ToolDescription,
        about=about,
        run=run,
    )
