"""Servers with unexpected answers: a call fails, and the next one is answered."""

import asyncio
import json
import sys

import anyio
import pytest
from toolimport import ToolCallError
from toolimport._connect import _process
from toolimport.runtime import ToolRunner, close

SERVER = """
import json, sys

sys.stdout.reconfigure(encoding="utf-8")
together = []

def report(asked, progress):
    token = asked["params"]["_meta"]["progressToken"]
    params = {"progressToken": token, "progress": progress, "message": "one\\u2028two"}
    said = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
    sys.stdout.write(json.dumps(said, ensure_ascii=False) + "\\n")

def write(text):
    sys.stdout.write(text + "\\n")
    sys.stdout.flush()

for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer, name = {"jsonrpc": "2.0", "id": asked["id"]}, asked.get("params", {}).get("name")
    good = {"content": [{"type": "text", "text": "good"}]}
    if asked["method"] == "initialize":
        about = {"name": "odd", "version": "1"}
        answer["result"] = {
            "protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about
        }
    elif asked["method"] == "tools/list":
        answer["result"] = {"tools": []}
    elif asked["method"] != "tools/call":
        answer["error"] = {"code": -32601, "message": "unknown"}
    elif name == "list":
        answer["result"] = [1]
    elif name == "null":
        answer["result"] = None
    elif name == "long":
        answer["result"] = {"content": [{"type": "text", "text": "x" * 300_000}]}
    elif name == "inner":
        rows = {"rows": [{"id": 42}]}
        answer = {"result": {**rows, "text": "x" * 300_000, "last": rows}, **answer}
    elif name == "last":
        answer = {"text": "x" * 300_000, **answer}
    elif name == "flood":
        for number in range(5000):
            report(asked, number)
        answer["result"] = good
    elif name == "together":
        together.append(asked)
        if len(together) == 20:
            for number, it in enumerate(together):
                report(it, number)
            for it in together:
                write(json.dumps({**answer, "id": it["id"], "result": good}))
        continue
    else:
        for _ in range(500 if name == "nonsense" else 0):
            write("}{")
        answer["result"] = good
    write(json.dumps(answer))
"""


@pytest.fixture
def odd(tmp_path, monkeypatch):
    monkeypatch.setattr(_process, "LONGEST_LINE", 100_000)
    (tmp_path / "server.py").write_text(SERVER)
    entry = {"command": sys.executable, "args": [str(tmp_path / "server.py")]}
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"odd": entry}}))
    yield ToolRunner("odd", tmp_path / "servers.json")
    close()


def test_the_last_of_many_progress_reports_is_passed_on(odd, caplog):
    told = []

    async def on_progress(progress, *_):
        told.append(progress)

    async def job():
        return await odd.forward("flood", {}, on_progress=on_progress)

    assert anyio.run(job).content[0].text == "good"
    assert told[-1] == 4999
    assert not [it for it in caplog.records if "parse" in it.getMessage()], caplog.text


def test_simultaneous_calls_each_get_their_own_progress_reports(odd):
    told = []

    async def on_progress(progress, *_):
        told.append(progress)

    async def job():
        calls = [odd.forward("together", {}, on_progress=on_progress) for _ in range(20)]
        await asyncio.gather(*calls)

    anyio.run(job)
    assert sorted(told) == list(range(20))


def test_a_call_whose_answer_is_too_long_reports_that_it_was_carried_out(odd, caplog):
    for name in ("long", "last", "inner"):
        with pytest.raises(ToolCallError, match=r"was carried out\. .* longer than"):
            odd.call(name, {})
        assert odd.run_sync("good", {}) == "good"

    caplog.clear()
    assert odd.run_sync("nonsense", {}) == "good"
    assert not caplog.records
