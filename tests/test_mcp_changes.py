"""Notifications by a server: changed categories, and progress."""

import re
import shutil
import subprocess
from contextlib import asynccontextmanager

import anyio
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import ToolListChangedNotification
from toolindex import Lease

from .conftest import PATIENCE

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def parameters(command, tree, home, environment):
    return StdioServerParameters(
        command=command, args=["serve", "--root", str(tree)], env=environment, cwd=home
    )


@asynccontextmanager
async def over(transport, parameters, patient):
    """Yield a client's connection, which fails if anything takes too long."""
    with anyio.fail_after(PATIENCE):
        if transport == "stdio":
            yield stdio_client(parameters)
            return
        flags = ["--transport", "http", "--port", "0"]
        with subprocess.Popen(
            [parameters.command, *parameters.args, *flags],
            env=parameters.env,
            cwd=parameters.cwd,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                with patient(process, "the address of the server"):
                    address = re.search(r"http://\S+", process.stderr.readline())
                yield f"{address[0]}/mcp"
            finally:
                process.terminate()


async def test_a_listening_client_is_notified_of_a_new_category_but_not_of_a_tool(
    parameters, tree, write_tools
):
    with anyio.fail_after(PATIENCE):
        async with (
            Client(stdio_client(parameters)) as client,
            client.listen(tools_list_changed=True) as changes,
        ):
            assert client.server_capabilities.tools.list_changed is True
            await client.call_tool("search_tools", {"query": "wait for the first index"})
            (before, *_) = (await client.list_tools()).tools
            assert "in 28 categories" in before.description

            write_tools(tree, "github", 3, "Count the stars.")
            while "tool_2" not in str(
                (await client.call_tool("search_tools", {"query": "tool_2"})).structured_content
            ):
                await anyio.sleep(0.05)
            write_tools(tree, "zoo", 2, "Feed the penguins.")

            async for _ in changes:
                break
            (after, *_) = (await client.list_tools()).tools
            assert "in 29 categories" in after.description, "only the second change notifies"


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_an_older_client_is_notified_over_its_session(parameters, tree, transport, patient):
    told = anyio.Event()

    async def handle(message):
        if isinstance(message, ToolListChangedNotification):
            told.set()

    async with (
        over(transport, parameters, patient) as server,
        Client(server, mode="legacy", message_handler=handle) as client,
    ):
        assert client.server_capabilities.tools.list_changed is True
        await client.call_tool("search_tools", {"query": "wait for the first index"})
        await client.list_tools()

        shutil.rmtree(tree / "mcptools" / "filesystem")

        await told.wait()
        (tool, *_) = (await client.list_tools()).tools
        assert "filesystem" not in tool.description


async def test_a_server_that_does_not_watch_promises_no_notifications(connect, tree):
    async with connect("--root", tree, PYTOOLS_SYNC="false", PYTOOLS_WATCH="false") as client:
        assert client.server_capabilities.tools.list_changed is False


async def test_progress_is_reported_while_a_search_waits_for_the_first_index(
    counted, connect, tree, tmp_path
):
    reports, later = [], []
    # The index cannot be opened before the first report.
    opening = Lease(tmp_path / "index.db", "rescue")
    assert opening.acquire(timeout=PATIENCE)

    async def report(progress, total, message):
        reports.append((progress, message))
        opening.release()

    # The client may call back after an answer, so each call has a list of its own.
    async def report_later(progress, total, message):
        later.append((progress, message))

    counted.fault.write_text("hang")
    arguments = ["--root", tree, "--db", tmp_path / "index.db"]
    async with connect(*arguments, program=counted.command, **counted.variables) as client:
        query = {"query": "open an issue on github", "mode": "bm25"}
        first = await client.call_tool("search_tools", query, progress_callback=report)
        assert first.structured_content["result"]
        assert reports
        assert {message.partition(":")[0] for _, message in reports} <= {
            "opening the index",
            "scanning the files", "embedding new tools",
        }  # fmt: skip
        assert [it for it, _ in reports] == sorted({it for it, _ in reports}), "progress increases"

        counted.fault.unlink()
        await client.call_tool("search_tools", query, progress_callback=report_later)
        assert later == [], "there is nothing left to wait for"
