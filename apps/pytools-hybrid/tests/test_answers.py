"""What a tool's server answers and logs during a call reaches the client."""

import json
import sys

import anyio
import pytest
from toolimport import ImportOptions, import_servers
from toolimport.runtime import close

from .conftest import PATIENCE

pytestmark = pytest.mark.anyio

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def text(words):
    return {"type": "text", "text": words}


# What the server answers; the texts and the structured content that the client gets; the note.
ANSWERS = {
    "rows": ({"content": [text("x")], "structuredContent": [1]}, ["x"], [1], ""),
    "bare": ({"structuredContent": {"n": 2**70}}, ['{"n": 1180591620717411303424}'],
             {"n": 2**70}, ""),
    "wrong": ({"content": [text("x")], "structuredContent": {"n": None}}, ["x"], {"n": None},
              "n: None is not of type 'integer'"),
    "odd": ({"content": [{"type": "html", "text": "<p>"}, {"type": "text"}]}, ["<p>"], None,
            "content[1] has no text"),
    "infinite": ({"content": [], "structuredContent": {"n": [float("inf")]}},
                 ['{"n": [Infinity]}'], {"n": ["inf"]}, "infinite numbers"),
    "lost": (None, [], None, "Its answer cannot be used"),
}  # fmt: skip
SERVER = """
import json, sys

answers = json.load(open(sys.argv[1]))
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    method, given = asked["method"], asked.get("params") or {}
    if method == "initialize":
        about = {"serverInfo": {"name": "odd", "version": "1"}}
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, **about}
    elif method == "tools/list":
        schema = {"type": "object", "required": ["a", "b"]}
        result = {"tools": [
            {"name": name, "description": name, "inputSchema": {"type": "object"}}
            | ({"outputSchema": json.loads(sys.argv[2])} if name == "wrong" else {})
            | ({"inputSchema": schema} if name == "needs" else {})
            for name in [*answers, "logs", "needs"]
        ]}
    elif method == "tools/call":
        if given["name"] == "logs":
            for number, level in enumerate(["debug", "warning", "error"] * 20):
                params = {"level": level, "data": f"line {number} \\x1b", "logger": "till"}
                log = {"jsonrpc": "2.0", "method": "notifications/message", "params": params}
                print(json.dumps(log), flush=not number % 7)
        result = answers.get(given["name"], {"content": []})
        if result is None:
            print(f'{{"jsonrpc": "2.0", "id": {asked["id"]}, "result": garbage')
            continue
    else:
        error = {"code": -32601, "message": "unknown"}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("odd")
    (folder / "server.py").write_text(SERVER.replace("garbage')", "garbage', flush=True)"))
    (folder / "answers.json").write_text(json.dumps({name: it[0] for name, it in ANSWERS.items()}))
    arguments = [str(folder / "server.py"), str(folder / "answers.json"), json.dumps(NUMBER)]
    entry = {"command": sys.executable, "args": ["-S", *arguments]}
    (folder / "servers.json").write_text(json.dumps({"mcpServers": {"odd": entry}}))

    async def job():
        return await import_servers(
            folder / "servers.json", folder / "tools", ImportOptions(seconds=120)
        )

    assert [report.error for report in anyio.run(job)] == [""]
    yield folder
    close()


async def call(client, name, **arguments):
    given = {"id": f"mcptools:odd:{name}", "arguments": arguments}
    return await client.call_tool("call_tool", given)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_call_that_was_carried_out_is_a_success_with_its_usable_parts(served, mode):
    async with served(mode=mode) as client:
        for name, (_, texts, structured, note) in ANSWERS.items():
            result = await call(client, name)
            assert not result.is_error, name
            got = [block.text for block in result.content]
            assert got[: len(texts)] == texts, name
            assert len(got) == len(texts) + bool(note), name
            assert note in got[-1], name
            is_wrapped = mode == "legacy" and isinstance(structured, list)
            assert result.structured_content == (
                {"result": structured} if is_wrapped else structured
            )
            assert not (result.meta or {}).get("toolimport/note")
        usage = client.search.index.store.usage
        await client.search.index.flush()
        # If another thread keeps the index locked for long, the record is written later.
        with anyio.fail_after(PATIENCE):
            while not usage.of_tool("mcptools:odd:lost"):
                await anyio.sleep(0.01)
        for name in ANSWERS:
            used = usage.of_tool(f"mcptools:odd:{name}")
            assert (used.observations, used.successes) == (1, 1), name


async def test_missing_arguments_are_reported_once(served):
    async with served() as client:
        result = await call(client, "needs")
    assert result.content[0].text.count("a, b are missing.") == 1


@pytest.mark.filterwarnings("ignore:The logging capability is deprecated")
async def test_log_messages_of_the_server_reach_the_client_at_its_level(served):
    told = []

    async def log(params):
        told.append((params.level, params.logger, params.data))

    async with served(mode="legacy", callbacks={"logging_callback": log}) as client:
        await call(client, "logs")
        assert len(told) == 60
        assert told[1] == ("warning", "odd: till", told[1][2])
        assert told[1][2].startswith("line 1 ")
        assert "\x1b" not in told[1][2]
        told.clear()
        await client.set_logging_level("error")
        await call(client, "logs")
        assert {level for level, *_ in told} == {"error"}
        assert len(told) == 20
    told.clear()
    async with served(callbacks={"logging_callback": log, "log_level": "warning"}) as client:
        await call(client, "logs")
    assert {level for level, *_ in told} == {"warning", "error"}
    assert len(told) == 40
    told.clear()
    async with served(callbacks={"logging_callback": log}) as client:
        await call(client, "logs")
    assert told == []
