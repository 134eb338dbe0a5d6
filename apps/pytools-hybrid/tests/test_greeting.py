"""A client is greeted before the work begins that would hold its greeting up."""

import asyncio

import pytest
from mcp.client.client import Client
from pytools_hybrid import Follower, ToolSearch
from pytools_hybrid.serve.mcp import _lifecycle, create_server

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def test_the_index_is_opened_at_the_first_request_after_the_greeting(
    settings, root, monkeypatch
):
    monkeypatch.setattr(_lifecycle, "_GREETING_SECONDS", 300)
    made = settings(watch=False)
    search = ToolSearch(root, made, refresh=False)
    follower = Follower(search.index)
    server = create_server(search, follower, settings=made, root=root)
    keeping = asyncio.create_task(_lifecycle._keep_open(search, follower, server))

    assert not await follower.opened(within=0)
    assert not server.greeted.is_set()
    async with Client(server) as client:
        result = await client.call_tool("search_tools", {"query": "open an issue"})

        assert result.structured_content["result"]
    keeping.cancel()
    await asyncio.wait({keeping})


async def test_the_index_is_opened_even_for_a_client_that_stays_silent(settings, root, monkeypatch):
    monkeypatch.setattr(_lifecycle, "_GREETING_SECONDS", 0)
    made = settings(watch=False)
    search = ToolSearch(root, made, refresh=False)
    follower = Follower(search.index)
    server = create_server(search, follower, settings=made, root=root)
    keeping = asyncio.create_task(_lifecycle._keep_open(search, follower, server))

    assert await follower.opened()
    keeping.cancel()
    await asyncio.wait({keeping})
