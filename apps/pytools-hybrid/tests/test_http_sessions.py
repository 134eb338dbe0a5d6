"""Sessions of MCP over HTTP: how many are kept, and which of them end."""

import asyncio
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp.server.transport_security import TransportSecuritySettings
from pytools_hybrid.http._sessions import SessionLimit
from pytools_hybrid.server import create_server

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


@pytest.fixture
def limited(settings, root):
    """Serve MCP with at most so many sessions: `async with limited(2) as (app, client)`."""

    @asynccontextmanager
    async def serving(most):
        made = settings(tools="basic")
        server = create_server(None, None, settings=made, root=root)
        # Which hosts may ask is decided in front of it.
        security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        inner = server.streamable_http_app(transport_security=security)
        app = SessionLimit(inner, path="/mcp", most=most)
        address = "http://127.0.0.1:8000"
        async with (
            inner.router.lifespan_context(inner),
            httpx2.AsyncClient(
                transport=httpx2.ASGITransport(app), base_url=address, headers=ACCEPT
            ) as client,
        ):
            yield app, client

    return serving


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
