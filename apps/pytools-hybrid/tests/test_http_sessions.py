"""MCP sessions over HTTP: their maximum number."""

import httpx2
import pytest
from pytools_hybrid.serve.http import _app
from pytools_hybrid.serve.http._app import create_app
from pytools_hybrid.serve.mcp import create_server

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
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}


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
