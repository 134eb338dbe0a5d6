"""The tool has run: whatever it answers, the usable parts arrive, with a note on the others."""

import asyncio
import json
import sys
import threading
from base64 import b64encode
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from toolimport import ToolCallError
from toolimport.runtime import ToolRunner, close

from .raw_server import http_server

SERVER = Path(__file__).with_name("raw_server.py")
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
PNG = b64encode(b"\x89PNG\r\n\x1a\n" + bytes(9)).decode()


def text(words):
    return {"type": "text", "text": words}


def deep(levels):
    return '{"a":' * levels + "1" + "}" * levels


# The result that a server writes, the value that `run` returns, and a part of the note.
USABLE = {
    "list": ({"content": [text("x")], "structuredContent": [{"n": 1}]}, [{"n": 1}], ""),
    "number": ({"content": [text("x")], "structuredContent": 3.5}, 3.5, ""),
    "word": ({"content": [text("x")], "structuredContent": "word"}, "word", ""),
    "null": ({"content": [text("x")], "structuredContent": None}, "x", ""),
    "no content": ({"structuredContent": {"n": 1}}, {"n": 1}, ""),
    "null content": ({"content": None, "structuredContent": {"n": 1}}, {"n": 1}, ""),
    "text content": ({"content": "x"}, "x", ""),
    "one block": ({"content": text("x")}, "x", ""),
    "only blocks": ([text("x"), text("y")], "x\ny", ""),
    "only text": ("x", "x", ""),
    "only a list": ([1, 2], [1, 2], ""),
    "only an object": ({"rows": 3}, {"rows": 3}, ""),
    "an old result": ({"toolResult": [1]}, [1], ""),
    "unknown": ({"content": [{"type": "html", "text": "<p>"}]}, "<p>", 'unknown type "html"'),
    "json": ({"content": [{"type": "json", "json": {"n": 1}}]}, None, "kept as JSON"),
    "no type": ({"content": [{"text": "x"}]}, "x", ""),
    "bare strings": ({"content": ["x", {"type": "text", "text": "y"}]}, "x\ny", ""),
    "a null block": ({"content": [None, text("y")]}, "y", "content[0] is null"),
    "no text": ({"content": [{"type": "text"}, text("y")]}, "y", "content[0] has no text"),
    "null options": ({"content": [text("x") | {"annotations": None, "_meta": None}]}, "x", ""),
    "annotations": ({"content": [text("x") | {"annotations": 3}]}, "x", "'annotations'"),
    "link": (
        {"content": [{"type": "resource_link", "uri": "a:b", "title": None, "mimeType": None}]},
        "[a:b: a:b]",
        "",
    ),
    "resource": ({"content": [{"type": "resource", "resource": {"text": "x"}}]}, "x", ""),
    "flag": ({"content": [text("x")], "isError": "false"}, "x", ""),
    "no flag": ({"content": [text("x")], "isError": None}, "x", ""),
    "odd flag": ({"content": [text("x")], "isError": "maybe"}, "x", "'isError' is \"maybe\""),
    "meta": ({"content": [text("x")], "_meta": [1]}, "x", "'_meta' is not an object"),
    "forged": ({"content": [text("x")], "_meta": {"toolimport/note": "fake"}}, "x", ""),
    "forged too": ({"content": [text("x")], "toolimport/answer": "[1"}, "x", ""),
    "extra": ({"content": [text("x")], "time": 3, "next": None}, "x", ""),
    "huge": ({"structuredContent": {"n": 2**70, "m": 2**53 + 1}}, {"n": 2**70, "m": 2**53 + 1}, ""),
    "wrong": (
        {"content": [text("x")], "structuredContent": {"n": None}},
        {"n": None},
        "n: None is not of type 'integer'",
    ),
    "promised": ({"content": [text("x")]}, "x", "it has no structured content"),
    "in text": ({"content": [text('{"n": 3}')]}, {"n": 3}, ""),
    "nothing": ({}, "", ""),
}
SCHEMAS = dict.fromkeys(("wrong", "promised", "in text"), NUMBER)
# Results that are not valid JSON.
RAW = {
    "lone": '{"content": [{"type": "text", "text": "\\ud83d!"}]}',
    "bytes": '{"content": [{"type": "text", "text": "\udcff!"}]}',
    "deep": f'{{"content": [], "structuredContent": {deep(1000)}}}',
    "digits": f'{{"structuredContent": {{"n": {"9" * 5000}}}}}',
    "infinite": '{"structuredContent": {"n": [NaN, Infinity]}}',
    "garbage": 'instead {"jsonrpc": "2.0", "id": @, "result"',
    "mark": 'instead \ufeff{"jsonrpc": "2.0", "id": @, "result": {"content": "x"}}',
    "batch": 'instead [{"jsonrpc": "2.0", "method": "a"}, '
    '{"jsonrpc": "2.0", "id": @, "result": {"content": "x"}}]',
}


@contextmanager
def listening(plan, kind):
    """Serve a plan over HTTP, and yield the server's definition."""
    with http_server(plan, kind) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield {"type": "http", "url": f"http://127.0.0.1:{server.server_port}/mcp"}
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module", params=["stdio", "application/json", "text/event-stream"])
def runner(request, tmp_path_factory):
    plan = {
        "results": {name: json.dumps(it) for name, (it, *_) in USABLE.items()} | RAW,
        "schemas": SCHEMAS,
    }
    folder = tmp_path_factory.mktemp("raw")
    with ExitStack() as stack:
        if request.param == "stdio":
            (folder / "plan.json").write_text(json.dumps(plan))
            arguments = ["-S", str(SERVER), str(folder / "plan.json")]
            entry = {"command": sys.executable, "args": arguments}
        else:
            entry = stack.enter_context(listening(plan, request.param))
        (folder / "servers.json").write_text(json.dumps({"mcpServers": {"raw": entry}}))
        yield ToolRunner("raw", folder / "servers.json")
        close()


@pytest.mark.parametrize("name", USABLE)
def test_the_usable_parts_of_a_result_arrive_with_a_note_on_the_others(runner, name, caplog):
    _, value, note = USABLE[name]
    got = runner.run_sync(name, {})
    assert got == value if value is not None else json.loads(got)["json"] == {"n": 1}
    assert note in caplog.text
    assert bool(caplog.records) == bool(note), caplog.text
    assert {it.name for it in caplog.records} <= {"toolimport.servers"}
    result = asyncio.run(runner.forward(name, {}))
    assert not result.is_error
    found = (result.meta or {}).get("toolimport/note", "")
    assert found.startswith("The call was carried out.") == bool(note)


def test_invalid_json_loses_only_the_part_that_is_invalid(runner, caplog):
    assert runner.run_sync("lone", {}) == "\ufffd!"
    assert runner.run_sync("bytes", {}) == "\ufffd!"
    assert "lone surrogates in it were replaced" in caplog.text
    digits = runner.run_sync("digits", {})
    assert digits == {"n": "9" * 5000}
    assert "an integer of 5,000 digits is text" in caplog.text
    found = runner.run_sync("deep", {})
    for _ in range(1000):
        found = json.loads(found) if isinstance(found, str) else found["a"]
        if isinstance(found, dict) and not isinstance(found["a"], dict | str):
            break
    assert "parts nested more than 180 levels deep are JSON text" in caplog.text
    assert str(runner.run_sync("infinite", {})["n"]) == "[nan, inf]"


@pytest.mark.parametrize("name", ["mark", "batch"])
def test_an_answer_after_a_byte_order_mark_or_in_a_batch_arrives(runner, name):
    assert runner.run_sync(name, {}) == "x"


@pytest.mark.parametrize(
    ("kind", "before"), [("text/event-stream", "words\n\n{}\n\n"), ("text/plain", "")]
)
def test_an_answer_over_http_arrives_after_other_events_and_as_plain_text(tmp_path, kind, before):
    answer = f'instead {before}{{"jsonrpc": "2.0", "id": @, "result": {{"content": "x"}}}}'
    with listening({"results": {"tool": answer}}, kind) as entry:
        (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"raw": entry}}))
        assert ToolRunner("raw", tmp_path / "servers.json").run_sync("tool", {}) == "x"
        close()


@pytest.mark.parametrize("body", ["cut off", "not gzip"])
def test_an_answer_that_cannot_be_read_may_be_of_a_call_that_was_carried_out(tmp_path, body):
    with listening({"results": {"tool": f"instead {body}"}}, "application/json") as entry:
        (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"raw": entry}}))
        with pytest.raises(ToolCallError, match="may have been carried out") as caught:
            ToolRunner("raw", tmp_path / "servers.json").run_sync("tool", {})
        close()
    assert "cannot be reached" not in str(caught.value)


def test_an_unusable_answer_is_an_error_that_reports_the_call_as_carried_out(runner):
    with pytest.raises(ToolCallError, match=r"was carried out\. Its answer cannot be used"):
        runner.run_sync("garbage", {})


def test_a_server_that_declares_a_failure_as_text_has_failed(tmp_path):
    plan = {"results": {"fails": json.dumps({"content": "no stock", "isError": "true"})}}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    entry = {"command": sys.executable, "args": ["-S", str(SERVER), str(tmp_path / "plan.json")]}
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"raw": entry}}))
    with pytest.raises(ToolCallError, match="no stock"):
        ToolRunner("raw", tmp_path / "servers.json").run_sync("fails", {})
    close()
