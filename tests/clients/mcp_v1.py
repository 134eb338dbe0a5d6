"""The official client of mcp 1.x."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import checks
import httpx
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client


class Session:
    """A session of `mcp.ClientSession`."""

    def __init__(self, session: ClientSession, server: str) -> None:
        self._session = session
        self.server = server

    async def tools(self) -> dict[str, dict[str, Any]]:
        """The input schemas of the tools, by name."""
        return {tool.name: tool.inputSchema for tool in (await self._session.list_tools()).tools}

    async def call(self, tool: str, **arguments: Any) -> checks.Answer:
        """Call a tool, perhaps with invalid arguments."""
        result = await self._session.call_tool(tool, arguments)
        text = "\n".join(block.text for block in result.content if block.type == "text")
        return checks.Answer(failed=result.isError, text=text, value=result.structuredContent)


@asynccontextmanager
async def over_stdio(command: list[str]) -> AsyncIterator[Session]:
    """Start the server as a process."""
    parameters = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    async with stdio_client(parameters) as (reader, writer), _session(reader, writer) as session:
        yield session


@asynccontextmanager
async def over_http(url: str, token: str) -> AsyncIterator[Session]:
    """Reach a server at its address."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx.AsyncClient(headers=headers, trust_env=False) as client,
        streamable_http_client(url, http_client=client) as (reader, writer, _),
        _session(reader, writer) as session,
    ):
        yield session


@asynccontextmanager
async def _session(reader: Any, writer: Any) -> AsyncIterator[Session]:
    async with ClientSession(reader, writer) as session:
        yield Session(session, (await session.initialize()).serverInfo.name)


if __name__ == "__main__":
    checks.main(over_stdio, over_http)
