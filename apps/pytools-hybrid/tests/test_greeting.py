"""A server answers `initialize` before it opens the index."""

import asyncio

import pytest
from mcp.client.client import Client
from pytools_hybrid.serve import process
from pytools_hybrid.settings import Roots

from .conftest import PATIENCE

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
async def started(settings, root, anyio_backend):
    """A server process that has just started, and opens its index."""
    started = process.ServerProcess(settings(watch=False), Roots.of(root))
    opening = asyncio.create_task(started.open())
    yield started
    opening.cancel()
    await asyncio.wait({opening})


async def test_the_index_is_opened_with_the_first_request_after_initialize(monkeypatch, started):
    monkeypatch.setattr(process, "_GREETING_SECONDS", 300)
    await asyncio.sleep(0)

    assert started.follower is None
    async with Client(started.server) as client:
        result = await client.call_tool("search_tools", {"query": "open an issue"})

        assert result.structured_content["result"]


async def test_the_index_is_opened_even_for_a_silent_client(monkeypatch, started):
    monkeypatch.setattr(process, "_GREETING_SECONDS", 0)
    async with asyncio.timeout(PATIENCE):
        while started.follower is None:
            await asyncio.sleep(0.01)

    assert await started.follower.opened(within=PATIENCE)
