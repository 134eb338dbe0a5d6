"""What a server tells without being asked: that there are other categories, and its progress."""

import shutil

import anyio
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import ToolListChangedNotification

pytestmark = pytest.mark.anyio

SOON = 20


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def parameters(command, tree, home, environment):
    return StdioServerParameters(
        command=command, args=["serve", "--root", str(tree)], env=environment, cwd=home
    )


async def test_a_client_that_listens_is_told_of_a_new_category_but_not_of_one_more_tool(
    parameters, tree, write_tools
):
    with anyio.fail_after(SOON):
        async with (
            Client(stdio_client(parameters)) as client,
            client.listen(tools_list_changed=True) as changes,
        ):
            assert client.server_capabilities.tools.list_changed is True
            (before, *_) = (await client.list_tools()).tools

            write_tools(tree, "github", 3, "Count the stars.")
            while "tool_2" not in str(
                (await client.call_tool("search_tools", {"query": "tool_2"})).structured_content
            ):
                await anyio.sleep(0.05)
            write_tools(tree, "zoo", 2, "Feed the penguins.")

            async for _ in changes:
                break
            (after, *_) = (await client.list_tools()).tools
            assert "zoo 2" not in before.description
            assert "33 categories" in after.description or "zoo 2" in after.description


async def test_an_older_client_is_told_over_its_session(parameters, tree):
    told = anyio.Event()

    async def handle(message):
        if isinstance(message, ToolListChangedNotification):
            told.set()

    with anyio.fail_after(SOON):
        async with Client(
            stdio_client(parameters), mode="legacy", message_handler=handle
        ) as client:
            assert client.server_capabilities.tools.list_changed is True
            await client.list_tools()

            shutil.rmtree(tree / "mcptools" / "pdf")

            await told.wait()
            (tool, *_) = (await client.list_tools()).tools
            assert "pdf" not in tool.description


async def test_a_server_that_follows_no_files_promises_no_notifications(connect, tree):
    async with connect("--root", tree, PYTOOLS_SYNC="false", PYTOOLS_WATCH="false") as client:
        assert client.server_capabilities.tools.list_changed is False


async def test_progress_is_reported_while_a_search_waits_for_the_first_index(
    counted, connect, tree
):
    reports = []

    async def report(progress, total, message):
        reports.append((progress, message))

    counted.fault.write_text("hang")
    async with connect("--root", tree, program=counted.command, **counted.variables) as client:
        query = {"query": "open an issue on github"}
        first = await client.call_tool("search_tools", query, progress_callback=report)
        assert first.structured_content["result"]
        assert reports
        assert {message for _, message in reports} <= {
            "looking at the files", "embedding new tools",
        }  # fmt: skip
        assert [it for it, _ in reports] == sorted({it for it, _ in reports}), "it grows"

        reports.clear()
        counted.fault.unlink()
        await client.call_tool("search_tools", query, progress_callback=report)
        assert reports == [], "there is nothing to wait for any more"
