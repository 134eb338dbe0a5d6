"""A tool's own name, on its server, means that tool, and never another one spelled like it."""

import json
import sys

import anyio
import httpx2
import pytest
from toolimport import ImportOptions, import_servers
from toolimport.runtime import close

pytestmark = pytest.mark.anyio

# Answers each call with the tool's name.
SERVER = """
import json, sys

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    match message["method"]:
        case "initialize":
            about = {"serverInfo": {"name": "echo", "version": "1"}, "capabilities": {"tools": {}}}
            result = {"protocolVersion": "2025-06-18"} | about
        case "tools/list":
            schema = {"type": "object"}
            result = {
                "tools": [
                    {"name": it, "description": f"Do {it}.", "inputSchema": schema}
                    for it in sys.argv[1:]
                ]
            }
        case "tools/call":
            result = {"content": [{"type": "text", "text": message["params"]["name"]}]}
        case _:
            result = None
    answer = {"result": result} if result else {"error": {"code": -32601, "message": "unknown"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"]} | answer), flush=True)
"""
SERVERS = {
    "staff": ("drop-user", "drop_user", "Export", "export", "list.all", "copy file", "🙂", "sync"),
    "Guest List": ("drop-user", "greet"),
    # Called like tools of other servers.
    "stranger": ("mcptools:staff:export", "staff.export", "mcp__staff__sync", "rename"),
}


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """A tree with the tools of several servers, and a Python tool."""
    folder = tmp_path_factory.mktemp("names")
    (folder / "echo.py").write_text(SERVER)
    start = {"command": sys.executable}
    servers = {
        name: start | {"args": ["-S", str(folder / "echo.py"), *tools]}
        for name, tools in SERVERS.items()
    }
    (folder / "servers.json").write_text(json.dumps({"mcpServers": servers}))

    async def job():
        return await import_servers(
            folder / "servers.json", folder / "tools", ImportOptions(seconds=120)
        )

    assert {report.error for report in anyio.run(job)} == {""}
    module = folder / "tools/gentools/people/rename/api.py"
    module.parent.mkdir(parents=True)
    module.write_text("def run(name: str) -> str:\n    '''Give a person another name.'''\n")
    yield folder
    close()


async def called(client, name):
    """Return the name of the tool that was called, or the error."""
    result = await client.call_tool("call_tool", {"id": name})
    return result.content[0].text if not result.is_error else f"! {result.content[0].text}"


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("drop_user", "drop_user"),
        ("staff:drop-user", "drop-user"),
        ("staff__drop-user", "drop-user"),
        ("mcp__staff__drop-user", "drop-user"),
        ("mcptools:staff:drop-user", "drop-user"),
        ("mcptools:staff:drop_user", "drop_user"),
        ("mcptools:staff:drop_user_2", "drop-user"),
        ("drop_user_2", "drop-user"),
        ("Guest List/drop-user", "drop-user"),
        ("guest_list.drop-user", "drop-user"),
        ("guest_list.drop_user", "drop-user"),
        ("Export", "Export"),
        (" export ", "export"),
        ("list.all", "list.all"),
        ("list_all", "list.all"),
        ("copy file", "copy file"),
        ("copyFile", "copy file"),
        ("🙂", "🙂"),
        ("greet", "greet"),
        # An id means its tool, whatever a server calls its own.
        ("mcptools:staff:export", "export"),
    ],
)
async def test_a_tools_own_name_or_a_spelling_that_only_it_has_means_it(served, name, tool):
    async with served() as client:
        assert await called(client, name) == tool


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("drop-user", ("mcptools:guest_list:drop_user", "mcptools:staff:drop_user_2")),
        ("staff.dropUser", ("mcptools:staff:drop_user", "mcptools:staff:drop_user_2")),
        ("EXPORT", ("mcptools:staff:export", "mcptools:staff:export_2")),
        ("staff.export", ("mcptools:staff:export", "mcptools:stranger:staff_export")),
        ("mcp__staff__sync", ("mcptools:staff:sync", "mcptools:stranger:mcp__staff__sync")),
        ("rename", ("gentools:people:rename", "mcptools:stranger:rename")),
    ],
)
async def test_a_name_of_several_tools_is_an_error_that_lists_them(served, name, ids):
    async with served() as client:
        answer = await called(client, name)
    assert answer.startswith("! several tools")
    assert sorted(answer.rpartition("one of ")[2].split(", ")) == sorted(ids)


async def test_the_name_of_a_hidden_tool_means_no_other_tool(served):
    async with served(exclude="*:drop_user_2") as client:
        assert "! Unknown tool" in await called(client, "staff.drop-user")
        assert await called(client, "staff.drop_user") == "drop_user"


async def test_tools_are_described_and_reported_by_the_same_rule(served):
    async with served(tools="search") as client:
        described = await client.call_tool("describe_tool", {"id": "Export", "detail": "full"})
        assert described.structured_content["description"] == "Do Export."
        assert "async def run_async" in described.structured_content["stub"]
        await client.call_tool("report_outcome", {"tool_id": "Export", "success": False})
        wrong = await client.call_tool("report_outcome", {"tool_id": "EXPORT", "success": True})
        assert "several tools" in wrong.content[0].text
        described = await client.call_tool("describe_tool", {"id": "Export", "detail": "full"})
        assert described.structured_content["usage"]["observations"] == 1
    async with served(token="secret", transport="http") as client:
        transport = httpx2.ASGITransport(client.app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(
            transport=transport,
            base_url="http://127.0.0.1:8000",
            headers={"Authorization": "Bearer secret"},
        ) as api:
            shown = await api.get("/api/v1/tools/Export")
            assert shown.json()["id"] == "mcptools:staff:export_2"
            answer = await api.post("/api/v1/tools/Export/call", json={"arguments": {}})
            assert answer.json()["content"][0]["text"] == "Export"
