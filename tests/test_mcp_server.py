"""The server as any MCP client sees it."""

import shutil
import sys
from functools import partial
from itertools import product

import anyio
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS

from .conftest import PATIENCE

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def eventually(search, holds):
    """Repeat a search until its answer is as expected; the only error may be to try again."""
    with anyio.fail_after(PATIENCE):
        while (found := await search()).is_error or not holds(found):
            assert not found.is_error or "again" in found.content[0].text, found
            await anyio.sleep(0.01)
    return found


def names(result):
    return [tool["id"] for tool in result.structured_content["result"]]


async def test_the_server_is_called_pytools_and_has_instructions(connect, tree):
    async with connect("--root", tree) as client:
        tools = (await client.list_tools()).tools

        assert client.server_info.name == "pytools"
        assert [tool.name for tool in tools] == ["search_tools", "describe_tool", "report_outcome"]
        for name in ("search_tools", "parallel", "describe_tool", "report_outcome"):
            assert name in client.instructions
        (prompt,) = (await client.list_prompts()).prompts
        assert prompt.name == "tool_discovery_workflow"
        (message,) = (await client.get_prompt(prompt.name)).messages
        assert message.content.text == client.instructions
        with pytest.raises(MCPError, match="no prompt 'x'; there is tool_discovery_") as refused:
            await client.get_prompt("x")
        assert refused.value.error.code == INVALID_PARAMS


async def test_the_first_search_already_has_words_and_vectors(connect, tree):
    async with connect("--root", tree) as client:
        result = await client.call_tool("search_tools", {"query": "open an issue on github"})

        assert result.is_error is False
        tools = result.structured_content["result"]
        assert len(tools) == 5
        assert [tool["score"] for tool in tools] == sorted(
            (tool["score"] for tool in tools), reverse=True
        )
        best = tools[0]
        assert list(best) == [
            "name", "category", "source", "description", "score", "confidence", "match_type",
            "path", "id", "signature",
        ]  # fmt: skip
        assert best["id"] == "mcptools:github:create_issue"
        assert (best["source"], best["category"], best["name"]) == (
            "mcptools", "github", "create_issue"
        )  # fmt: skip
        assert "create_pull_request" in best["description"], "the full docstring"
        assert best["path"] == (tree / "mcptools/github/create_issue.py").as_posix()
        assert best["signature"] == "def run(params: Params) -> str"
        assert 0 <= best["score"] <= 1


async def test_every_mode_answers_in_every_scope(connect, tree):
    async with connect("--root", tree) as client:
        for mode, scope in product(
            ["hybrid", "bm25", "vector", "fuzzy"], ["all", "gentools", "mcptools"]
        ):
            result = await client.call_tool(
                "search_tools",
                {"query": "report on github issues", "mode": mode, "scope": scope, "limit": 2},
            )

            assert len(names(result)) == 2, (mode, scope)
            assert scope == "all" or all(name.startswith(scope) for name in names(result))


async def test_a_query_without_words_returns_no_results_and_the_reason(connect, tree):
    async with connect("--root", tree) as client:
        result = await client.call_tool("search_tools", {"query": "  "})

        assert result.structured_content["result"] == []
        assert "no words" in result.content[0].text


async def test_an_answer_reports_that_the_offline_model_replaced_another(connect, tree):
    async with connect("--root", tree, "--embedding-model", "openai:nothing") as client:
        result = await client.call_tool("search_tools", {"query": "open an issue on github"})

        assert "mcptools:github:create_issue" in names(result)
        assert "searched with vectors of static:" in result.content[0].text
        assert "searched with vectors of static:" in result.meta["pytools/notes"][0]


async def test_searches_follow_a_file_that_is_added_changed_and_removed(connect, tree):
    async with connect("--root", tree) as client:

        async def search():
            return await client.call_tool(
                "search_tools", {"query": "feed the penguins with herring", "limit": 1}
            )

        def first(result):
            return result.structured_content["result"][0]

        tool = tree / "mcptools" / "zoo" / "feed_penguins.py"
        await search()
        tool.parent.mkdir()
        tool.write_text("def run():\n    '''Feed the penguins with herring.'''\n")
        await eventually(search, lambda r: first(r)["id"] == "mcptools:zoo:feed_penguins")

        tool.write_text("async def run():\n    '''Feed penguins with herring and squid.'''\n")
        await eventually(search, lambda r: "squid" in first(r)["description"])

        tool.unlink()
        await eventually(search, lambda r: first(r)["category"] != "zoo")


async def test_the_tools_of_a_moved_category_move_with_it(connect, tree):
    async with connect("--root", tree) as client:

        async def search():
            return await client.call_tool("search_tools", {"query": "create_issue", "limit": 50})

        await search()
        (tree / "mcptools" / "github").rename(tree / "mcptools" / "hub")

        found = await eventually(search, lambda r: "mcptools:hub:create_issue" in names(r))
        assert not any(name.startswith("mcptools:github:") for name in names(found))


async def test_a_root_that_is_created_later_is_indexed(connect, examples, tmp_path):
    async with connect("--root", tmp_path / "later") as client:

        async def search():
            return await client.call_tool("search_tools", {"query": "open an issue on github"})

        result = await search()
        assert result.structured_content["result"] == []
        assert "later does not exist" in result.content[0].text

        shutil.copytree(examples, tmp_path / "later")
        await eventually(search, lambda r: "mcptools:github:create_issue" in names(r)[:1])


async def test_two_servers_can_create_one_database_together(connect, tree, tmp_path):
    database = tmp_path / "shared.db"
    async with (
        connect("--root", tree, "--db", database) as one,
        connect("--root", tree, "--db", database) as two,
    ):
        for client in (one, two):
            # One of them may wait too long for the other's lock, and then tries again.
            search = partial(client.call_tool, "search_tools", {"query": "merge pdf files"})
            await eventually(search, lambda r: names(r)[:1] == ["mcptools:pdf:merge_pdfs"])


async def test_many_concurrent_searches_are_all_answered(connect, tree):
    async with connect("--root", tree) as client:
        answers = []

        async def search(query):
            answers.append(await client.call_tool("search_tools", {"query": query}))

        async with anyio.create_task_group() as tasks:
            for number in range(64):
                tasks.start_soon(search, f"merge pdf files number {number}")

        assert len(answers) == 64
        assert all(names(answer)[0] == "mcptools:pdf:merge_pdfs" for answer in answers)


async def test_a_server_that_neither_syncs_nor_watches_uses_the_index_as_it_is(
    connect, tree, tmp_path
):
    database = tmp_path / "shared.db"
    async with connect("--root", tree, "--db", database) as client:
        await client.call_tool("search_tools", {"query": "anything"})
    (tree / "mcptools" / "pdf" / "merge_pdfs.py").unlink()

    async with connect(
        "--root", tree, "--db", database, PYTOOLS_SYNC="false", PYTOOLS_WATCH="false"
    ) as client:
        result = await client.call_tool("search_tools", {"query": "merge pdf files"})
        assert names(result)[0] == "mcptools:pdf:merge_pdfs"


async def test_running_the_module_without_arguments_starts_the_server(tree, environment, home):
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "pytools_hybrid"],
        env=environment | {"PYTOOLS_DIR": str(tree)},
        cwd=home,
    )
    async with Client(stdio_client(parameters)) as client:
        # This process waits only ten seconds for its first scan.
        search = partial(client.call_tool, "search_tools", {"query": "merge pdf files"})
        await eventually(search, lambda r: names(r)[:1] == ["mcptools:pdf:merge_pdfs"])
