"""A server answers `initialize` before it opens the index."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from mcp.client.client import Client
from pytools_hybrid.serve.process import ServerProcess
from pytools_hybrid.settings import Roots

from .conftest import PATIENCE

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def started(settings, root):
    """Start the opening of an index as a server process does."""

    @asynccontextmanager
    async def start(seconds):
        started = ServerProcess(settings(watch=False), Roots.of(root))
        started.greeting_seconds = seconds
        opening = asyncio.create_task(started.open())
        yield started
        opening.cancel()
        await asyncio.wait({opening})

    return start


async def test_the_index_is_opened_with_the_first_request_after_initialize(started):
    async with started(300) as process:
        await asyncio.sleep(0)
        assert process.follower is None
        async with Client(process.server) as client:
            result = await client.call_tool("search_tools", {"query": "open an issue"})

    assert result.structured_content["result"]


async def test_the_index_is_opened_even_for_a_silent_client(started):
    async with started(0) as process, asyncio.timeout(PATIENCE):
        while process.follower is None:
            await asyncio.sleep(0.01)
        assert await process.follower.wait_until_open(within=PATIENCE)
