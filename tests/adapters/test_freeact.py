"""An agent that is made for freeact's search server uses ours: the MCP toolset of pydantic-ai."""

from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError
from pydantic_ai.mcp import MCPToolset

from ..conftest import PATIENCE, PATIENT

pytestmark = pytest.mark.anyio

MODES = ("bm25", "vector", "hybrid")
TOOLS = {
    "mcptools/garden/water_plants.py": "Water the plants of a bed, unless it has rained.",
    "mcptools/garden/plan_bed.py": "Plan which vegetables grow in a bed this year.",
    "gentools/kitchen/scale_recipe/api.py": "Scale a recipe to a number of guests.",
    "gentools/kitchen/pick_wine/api.py": "Pick a wine that goes with a dish.",
}
NAMES = {"water_plants", "plan_bed", "scale_recipe", "pick_wine"}


def module(description):
    return f'def run(what: str) -> str:\n    """{description}"""\n    return what\n'


@pytest.fixture
def root(write_tree):
    return write_tree({path: module(description) for path, description in TOOLS.items()})


@pytest.fixture
def start(environment, tmp_path):
    """Start a server with the variables that freeact sets; they can be changed."""

    @asynccontextmanager
    async def started(root, **variables):
        variables = {
            "PYTOOLS_DIR": str(root),
            "PYTOOLS_DB_PATH": str(tmp_path / "search.db"),
            "PYTOOLS_EMBEDDING_MODEL": "test",
            "PYTOOLS_EMBEDDING_DIM": "8",
            "PYTOOLS_SYNC": "true",
            "PYTOOLS_WATCH": "true",
        } | variables
        program, *arguments = (*PATIENT, "serve")
        transport = StdioTransport(
            program, arguments, env=environment | variables, keep_alive=False
        )
        toolset = MCPToolset(transport, tool_error_behavior="error", init_timeout=PATIENCE)
        with anyio.fail_after(PATIENCE):
            async with toolset:
                yield toolset

    return started


async def search(server, query, **arguments):
    """Return the results, which the toolset takes out of the answer only if nothing is beside."""
    found = await server.direct_call_tool("search_tools", {"query": query} | arguments)
    assert isinstance(found, list), found
    return found


async def names(server, query, **arguments):
    return [tool["name"] for tool in await search(server, query, **arguments)]


async def test_the_first_search_finds_every_tool_with_its_fields(start, root):
    async with start(root) as server:
        offered = [tool.name for tool in await server.list_tools()]
        found = await search(server, "anything", mode="vector", limit=10)

    assert "search_tools" in offered
    assert {tool["name"] for tool in found} == NAMES
    for tool in found:
        place = Path(tool["path"]).relative_to(root).as_posix()
        assert tool["description"].startswith(TOOLS[place])
        assert place.split("/")[:2] == [tool["source"], tool["category"]]


async def test_each_mode_finds_tools(start, root):
    async with start(root) as server:
        for mode in MODES:
            assert "plan_bed" in await names(server, "plan the vegetables", mode=mode)
        assert (await names(server, "wine for a dish", mode="bm25"))[0] == "pick_wine"
        assert "scale_recipe" in await names(server, "recipe for many guests")


async def test_limit_and_scope_are_applied(start, root):
    async with start(root) as server:
        for limit in (1, 2, 50):
            found = await search(server, "anything", mode="vector", limit=limit)
            assert len(found) == min(limit, len(TOOLS))
        for scope in ("mcptools", "gentools"):
            found = await search(server, "a bed, a dish", scope=scope)
            assert {tool["source"] for tool in found} == {scope}


async def test_an_empty_root_returns_an_empty_list(start, tmp_path):
    (tmp_path / "empty").mkdir()
    async with start(tmp_path / "empty") as server:
        for mode in MODES:
            assert await search(server, "anything", mode=mode) == []


async def test_added_changed_and_removed_files_change_the_answers(start, root):
    async with start(root) as server:

        async def until(query, *expected):
            while await names(server, query, mode="bm25") != [*expected]:
                await anyio.sleep(0.01)

        await until("lawn")
        file = root / "mcptools/garden/mow.py"
        file.write_text(module("Mow the lawn."), encoding="utf-8")
        await until("lawn", "mow")
        file.write_text(module("Cut the hedge."), encoding="utf-8")
        await until("hedge", "mow")
        await until("lawn")
        file.unlink()
        await until("hedge")


async def test_servers_that_do_not_sync_search_one_index_at_the_same_time(start, root):
    async with start(root) as server:
        assert len(await search(server, "anything", mode="vector", limit=10)) == len(TOOLS)
    found = {}

    async def ask(mode):
        async with start(root, PYTOOLS_SYNC="false", PYTOOLS_WATCH="false") as server:
            found[mode] = await names(server, "water the plants", mode=mode)

    async with anyio.create_task_group() as tasks:
        for mode in MODES:
            tasks.start_soon(ask, mode)

    assert found.keys() == set(MODES)
    assert all("water_plants" in it for it in found.values())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"mode": "semantic"}, "mode is 'semantic'; give one of hybrid, bm25, vector, fuzzy."),
        ({"limit": 0}, "limit is 0; give a whole number from 1 to 50."),
        ({"limit": 51}, "limit is 51; give a whole number from 1 to 50."),
        ({"sort": "name"}, "There is no argument 'sort'"),
    ],
)
async def test_wrong_arguments_are_errors_that_list_the_accepted_values(
    start, root, arguments, said
):
    async with start(root) as server:
        with pytest.raises(ToolError, match=said):
            await search(server, "a wine", **arguments)
        assert "pick_wine" in await names(server, "a wine")
