"""Sessions of MCP over HTTP: how many are kept, and which of them end."""

import asyncio
from contextlib import asynccontextmanager, suppress

import httpx2
import pytest
from mcp.server.mcpserver import MCPServer
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.server.transport_security import TransportSecuritySettings
from pytools_hybrid.serve.http._sessions import SessionLimit
from pytools_hybrid.serve.mcp import create_server
from pytools_hybrid.serve.mcp._list_changes import ListChanges

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
# Which hosts may ask is decided in front of the application.
ANY_HOST = TransportSecuritySettings(enable_dns_rebinding_protection=False)


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def limited(settings, root):
    """Serve MCP with at most so many sessions: `async with limited(2) as (app, client)`."""

    @asynccontextmanager
    async def serving(most):
        made = settings(tools="basic")
        server = create_server(None, None, settings=made, root=root)
        inner = server.streamable_http_app(transport_security=ANY_HOST)
        app = SessionLimit(inner, path="/mcp", most=most)
        async with inner.router.lifespan_context(inner), calling(app) as client:
            yield app, client

    return serving


def calling(app):
    address, transport = "http://127.0.0.1:8000", httpx2.ASGITransport(app)
    return httpx2.AsyncClient(transport=transport, base_url=address, headers=ACCEPT)


async def opened(client):
    answer = await client.post("/mcp", json=HELLO)
    assert answer.status_code == 200, answer.text
    return answer.headers["mcp-session-id"]


async def pinged(client, session):
    return (await client.post("/mcp", json=PING, headers={"mcp-session-id": session})).status_code


async def test_the_session_that_was_silent_longest_makes_room(limited):
    async with limited(2) as (_, client):
        first, second = await opened(client), await opened(client)
        assert await pinged(client, first) == 200
        third = await opened(client)

        assert [await pinged(client, it) for it in (first, second, third)] == [200, 404, 200]


async def test_a_session_that_its_client_ended_leaves_its_place(limited):
    async with limited(2) as (_, client):
        first, second = await opened(client), await opened(client)
        await client.delete("/mcp", headers={"mcp-session-id": second})
        third = await opened(client)

        assert [await pinged(client, it) for it in (first, second, third)] == [200, 404, 200]


async def test_a_session_that_listens_is_kept(limited):
    async with limited(1) as (app, client):
        first = await opened(client)
        listening, messages = asyncio.Event(), [{"type": "http.request"}]

        async def receive():
            return messages.pop() if messages else await asyncio.Event().wait()

        async def send(message):
            listening.set()

        headers = {"host": "127.0.0.1", "mcp-session-id": first} | ACCEPT
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/mcp",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
        stream = asyncio.create_task(app(scope, receive, send))
        async with asyncio.timeout(30):
            await listening.wait()
        second = await opened(client)
        third = await opened(client)

        statuses = [await pinged(client, it) for it in (first, second, third)]
        stream.cancel()
        await asyncio.wait({stream})

    assert statuses == [200, 404, 200]


async def test_what_opens_no_session_ends_none(limited):
    async with limited(1) as (_, client):
        first = await opened(client)
        wrong = await client.post(
            "/mcp", content=b"{", headers={"content-type": "application/json"}
        )
        unknown = await client.delete("/mcp", headers={"mcp-session-id": "none"})

        assert (wrong.status_code, unknown.status_code) == (400, 404)
        assert await pinged(client, first) == 200


async def test_changes_are_told_to_the_sessions_that_there_are():
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
    assert await until_told(changes, 0) == 0, "the server has ended"


async def until_told(changes, expected):
    """Wait until so many are told, or until that will not be any more."""
    with suppress(TimeoutError):
        async with asyncio.timeout(10):
            while len(changes._connections) != expected:
                await asyncio.sleep(0)
    return len(changes._connections)
