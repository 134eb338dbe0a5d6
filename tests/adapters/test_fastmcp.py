"""A client of a FastMCP server sees a search in place of its tools, and calls what it finds."""

import json

import pytest

fastmcp = pytest.importorskip("fastmcp")

from fastmcp.server.transforms.search import BM25SearchTransform  # noqa: E402
from fastmcp.tools import FunctionTool  # noqa: E402
from pytools_hybrid.agents.adapters.fastmcp import HybridSearchTransform  # noqa: E402

pytestmark = pytest.mark.anyio


def server(definitions, transform):
    made = fastmcp.FastMCP("Office")
    for name, (description, schema) in definitions.items():

        def run(name=name, **arguments):
            return f"{name} was called"

        made.add_tool(FunctionTool(name=name, description=description, parameters=schema, fn=run))
    made.add_transform(transform)
    return made


async def found(client, query):
    result = await client.call_tool("search_tools", {"query": query})
    return [tool["name"] for block in result.content for tool in json.loads(block.text)]


async def test_clients_see_the_search_and_pinned_tools(definitions):
    transform = HybridSearchTransform(always_visible=["play_song"])
    async with fastmcp.Client(server(definitions, transform)) as client:
        listed = [tool.name for tool in await client.list_tools()]
        played = await found(client, "play a song")

    assert sorted(listed) == ["call_tool", "play_song", "search_tools"]
    assert "play_song" not in played


async def test_a_paraphrase_finds_what_words_alone_miss(definitions):
    query = "combine papers"
    async with fastmcp.Client(server(definitions, BM25SearchTransform())) as client:
        assert await found(client, query) == []
    async with fastmcp.Client(server(definitions, HybridSearchTransform())) as client:
        assert (await found(client, query))[0] == "merge_pdfs"


async def test_a_found_tool_can_be_called(definitions):
    transform = HybridSearchTransform(max_results=1)
    async with fastmcp.Client(server(definitions, transform)) as client:
        (name,) = await found(client, "report a bug")
        result = await client.call_tool("call_tool", {"name": name, "arguments": {"title": "x"}})

    assert result.content[0].text == "create_issue was called"


async def test_an_added_tool_is_found_by_the_next_search(definitions):
    made = server(definitions, HybridSearchTransform(max_results=1))
    async with fastmcp.Client(made) as client:
        before = await found(client, "water the plants in the garden")

        @made.tool
        def water_plants(minutes: int) -> str:
            """Water the plants in the garden."""
            return "watered"

        after = await found(client, "water the plants in the garden")

    assert before != ["water_plants"]
    assert after == ["water_plants"]
