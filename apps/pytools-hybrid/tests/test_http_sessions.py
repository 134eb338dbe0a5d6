"""MCP sessions over HTTP: their maximum number, and notifications of changes."""

import asyncio
from contextlib import suppress

import httpx2
import pytest
from mcp.server.mcpserver import MCPServer
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.server.transport_security import TransportSecuritySettings
from pytools_hybrid.serve.http import _app
from pytools_hybrid.serve.http._app import create_app
from pytools_hybrid.serve.mcp import create_server
from pytools_hybrid.serve.mcp._list_changes import ListChanges

from .conftest import PATIENCE

pytestmark = pytest.mark.anyio

ACCEPT = {"accept": "application/json, text/event-stream"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
# The gate in front of the application checks host names.
ANY_HOST = TransportSecuritySettings(enable_dns_rebinding_protection=False)


@pytest.fixture
def anyio_backend():
    return "asyncio"


def calling(app):
    address, transport = "http://127.0.0.1:8000", httpx2.ASGITransport(app)
    return httpx2.AsyncClient(transport=transport, base_url=address, headers=ACCEPT)


async def opened(client):
    answer = await client.post("/mcp", json=HELLO)
    assert answer.status_code == 200, answer.text
    return answer.headers["mcp-session-id"]


async def pinged(client, session):
    return (await client.post("/mcp", json=PING, headers={"mcp-session-id": session})).status_code


async def test_a_new_session_is_refused_at_the_limit_until_another_ends(
    monkeypatch, settings, root
):
    monkeypatch.setattr(_app, "_MCP_SESSIONS", 2)
    made = settings(tools="basic")
    app = create_app(None, None, create_server(None, None, settings=made, root=root), made)

    async with app.router.lifespan_context(app), calling(app) as client:
        first, second = await opened(client), await opened(client)
        assert (await client.post("/mcp", json=HELLO)).status_code == 503
        assert [await pinged(client, it) for it in (first, second)] == [200, 200]
        await client.delete("/mcp", headers={"mcp-session-id": first})
        third = await opened(client)

        assert [await pinged(client, it) for it in (first, second, third)] == [404, 200, 200]
        assert "pytools_mcp_sessions 2.0" in (await client.get("/metrics")).text


async def test_changes_are_announced_to_open_sessions_only():
    changes = ListChanges(InMemorySubscriptionBus())
    server = MCPServer("test", middleware=[changes.middleware])
    app = server.streamable_http_app(transport_security=ANY_HOST)

    async with app.router.lifespan_context(app), calling(app) as client:
        sessions = [{"mcp-session-id": await opened(client)} for _ in range(3)]
        for session in sessions * 2:
            await client.post("/mcp", json=INITIALIZED, headers=session)
        told_at_first = await until_told(changes, 3)
        for session in sessions[1:]:
            await client.delete("/mcp", headers=session)
        told_at_last = await until_told(changes, 1)

    assert (told_at_first, told_at_last) == (3, 1)
    assert await until_told(changes, 0) == 0, "the server has stopped"


async def until_told(changes, expected):
    """Wait until this many clients would be notified, or too long; return how many would be."""
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            while len(changes._connections) != expected:
                await asyncio.sleep(0)
    return len(changes._connections)
