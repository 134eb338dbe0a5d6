"""The official client of mcp 2.x."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import checks
import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client


class Session:
    """A session of `mcp.client.client.Client`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def server(self) -> str:
        """The server's name."""
        return self._client.server_info.name

    async def tools(self) -> dict[str, dict[str, Any]]:
        """The input schemas of the tools, by name."""
        return {tool.name: tool.input_schema for tool in (await self._client.list_tools()).tools}

    async def call(self, tool: str, **arguments: Any) -> checks.Answer:
        """Call a tool, perhaps with invalid arguments."""
        result = await self._client.call_tool(tool, arguments)
        text = "\n".join(block.text for block in result.content if block.type == "text")
        return checks.Answer(
            failed=bool(result.is_error), text=text, value=result.structured_content
        )


@asynccontextmanager
async def over_stdio(command: list[str]) -> AsyncIterator[Session]:
    """Start the server as a process."""
    parameters = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    async with Client(stdio_client(parameters)) as client:
        yield Session(client)


@asynccontextmanager
async def over_http(url: str, token: str) -> AsyncIterator[Session]:
    """Reach a server at its address."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield Session(client)


if __name__ == "__main__":
    checks.main(over_stdio, over_http)
