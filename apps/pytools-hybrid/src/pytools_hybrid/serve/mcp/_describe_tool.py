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
    from pytools_hybrid.serve.calls import ToolCaller
    from pytools_hybrid.serve.mcp._offered import Progress


class DescribeArguments(Arguments):
    """Which tool to describe, and in how much detail."""

    id: Annotated[str, Field(description="Or a name that only one tool has")]
    detail: Annotated[
        Literal["summary", "schema", "full"],
        Field(description="full adds docstring, examples, usage"),
    ] = "schema"


class CallableDescription(ToolDescription):
    """A tool, with details on calling it through this server."""

    annotations: dict[str, bool] | None = None
    not_callable: str | None = None


def describe_tool(
    search: ToolSearch, follower: Follower, caller: ToolCaller | None = None
) -> ServedTool[DescribeArguments]:
    """Create the tool for an open `ToolSearch`; with a caller, for clients that call tools."""

    async def about() -> str:
        return "Show how to call a tool: signature and JSON Schemas."

    async def run(asked: DescribeArguments, progress: Progress) -> CallToolResult:
        await follower.looked(progress)
        described = await search.describe(asked.id, DetailLevel(asked.detail))
        if caller is not None:
            described = await _as_called(described, caller)
        structured = described.model_dump(exclude_none=True)
        return answer(structured, json_text(structured))

    return ServedTool(
        name="describe_tool",
        title="Describe a tool",
        arguments=DescribeArguments,
        result=ToolDescription if caller is None else CallableDescription,
        about=about,
        run=run,
    )


async def _as_called(described: ToolDescription, caller: ToolCaller) -> CallableDescription:
    """Replace the Python signature and schema of a tool with those of its MCP server."""
    tool = await caller.find(described.id)
    told = described.model_dump(exclude={"signature", "types", "defaults"})
    if tool.refusal:
        told = described.model_dump() | {"not_callable": tool.refusal}
    elif described.input_schema is not None:
        told["input_schema"] = dict(tool.schema or {})
    return CallableDescription.model_validate(
        {**told, "annotations": dict(tool.annotations) or None}
    )
