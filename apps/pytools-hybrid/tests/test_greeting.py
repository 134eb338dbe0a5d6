"""A server answers `initialize` before it opens the index."""

import asyncio

import pytest
from mcp.client.client import Client
from pytools_hybrid import Follower, ToolSearch
from pytools_hybrid.serve.mcp import _lifecycle, create_server

from .conftest import PATIENCE

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
async def parts(settings, root, anyio_backend):
    """The search, follower and server of a process that has just started."""
    made = settings(watch=False)
    search = ToolSearch(root, made, refresh=False)
    follower = Follower(search.index)
    return search, follower, create_server(search, follower, settings=made, root=root)


async def test_the_index_is_opened_with_the_first_request_after_initialize(parts, monkeypatch):
    monkeypatch.setattr(_lifecycle, "_GREETING_SECONDS", 300)
    _, follower, server = parts
    keeping = asyncio.create_task(_lifecycle._keep_open(*parts))

    assert not await follower.wait_until_open(within=0)
    assert not server.greeted.is_set()
    async with Client(server) as client:
        result = await client.call_tool("search_tools", {"query": "open an issue"})

        assert result.structured_content["result"]
    keeping.cancel()
    await asyncio.wait({keeping})


async def test_the_index_is_opened_even_for_a_silent_client(parts, monkeypatch):
    monkeypatch.setattr(_lifecycle, "_GREETING_SECONDS", 0)
    keeping = asyncio.create_task(_lifecycle._keep_open(*parts))

    assert await parts[1].opened(within=PATIENCE)
    keeping.cancel()
    await asyncio.wait({keeping})
