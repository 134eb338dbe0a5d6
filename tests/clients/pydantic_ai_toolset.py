"""The MCP toolset of pydantic-ai, alone and in an agent."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import checks
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from fastmcp.exceptions import ToolError
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset, load_mcp_toolsets
from pydantic_ai.models.test import TestModel

CONFIGURATIONS = Path(__file__).parents[2] / "examples" / "clients"


class Session:
    """A session of `pydantic_ai.mcp.MCPToolset`."""

    def __init__(self, toolset: MCPToolset[Any]) -> None:
        self._toolset = toolset

    @property
    def server(self) -> str:
        """The server's name."""
        return self._toolset.server_info.name

    async def tools(self) -> dict[str, dict[str, Any]]:
        """The input schemas of the tools, by name."""
        listed = [tool.model_dump(by_alias=True) for tool in await self._toolset.list_tools()]
        return {tool["name"]: tool["inputSchema"] for tool in listed}

    async def call(self, tool: str, **arguments: Any) -> checks.Answer:
        """Call a tool, perhaps with invalid arguments."""
        try:
            value = await self._toolset.direct_call_tool(tool, arguments)
        except ToolError as error:
            return checks.Answer(failed=True, text=str(error))
        # The toolset unwraps a list.
        value = {"result": value} if isinstance(value, list) else value
        return checks.Answer(failed=False, text=json.dumps(value), value=value)


@asynccontextmanager
async def over_stdio(command: list[str]) -> AsyncIterator[Session]:
    """Start the server as a process."""
    transport = StdioTransport(command[0], command[1:], env=dict(os.environ), keep_alive=False)
    async with MCPToolset(transport, tool_error_behavior="error", init_timeout=240) as toolset:
        yield Session(toolset)


@asynccontextmanager
async def over_http(url: str, token: str) -> AsyncIterator[Session]:
    """Reach a server at its address."""
    transport = StreamableHttpTransport(url, headers={"Authorization": f"Bearer {token}"})
    async with MCPToolset(transport, tool_error_behavior="error", init_timeout=240) as toolset:
        yield Session(toolset)


async def agent_with_a_configuration_of_ours() -> None:
    """Check an agent with a configuration of `examples/clients`, which calls a tool."""
    toolsets = load_mcp_toolsets(CONFIGURATIONS / "claude-code.json")
    model = TestModel(call_tools=["pytools_search_tools"])
    async with Agent(model, toolsets=toolsets) as agent:
        result = await agent.run("Open an issue.")
    assert "mcptools:" in result.output, result.output
    print("agent: ok")


if __name__ == "__main__":
    checks.main(over_stdio, over_http, agent_with_a_configuration_of_ours)
