"""The tool has run: whatever it answers, the usable parts arrive, with a note on the others."""

import asyncio
import json
import sys
from base64 import b64encode
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from toolimport import ToolCallError
from toolimport._connect import _process
from toolimport.runtime import ToolRunner, close

from .raw_server import answer_to, listening

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
            entry = stack.enter_context(listening(partial(answer_to, plan), request.param))
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


@pytest.fixture
def once(tmp_path):
    """Call a tool of a server over HTTP that always answers with the same text."""

    def call(text, kind):
        plan = {"results": {"tool": f"instead {text}"}}
        with listening(partial(answer_to, plan), kind) as entry:
            (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"raw": entry}}))
            try:
                return ToolRunner("raw", tmp_path / "servers.json").run_sync("tool", {})
            finally:
                close()

    return call


def test_an_answer_over_http_may_be_plain_text(once):
    assert once('{"jsonrpc": "2.0", "id": @, "result": {"content": "x"}}', "text/plain") == "x"


@pytest.mark.parametrize("body", ["cut off", "not gzip"])
def test_an_answer_that_cannot_be_read_may_be_of_a_call_that_was_carried_out(once, body):
    with pytest.raises(ToolCallError, match="may have been carried out") as caught:
        once(body, "application/json")
    assert "cannot be reached" not in str(caught.value)


def test_an_unusable_answer_is_an_error_that_reports_the_call_as_carried_out(runner):
    with pytest.raises(ToolCallError, match=r"was carried out\. Its answer cannot be used"):
        runner.run_sync("garbage", {})


def progress(number):
    params = {"progressToken": "@", "progress": number, "message": "one\u2028two"}
    said = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
    return json.dumps(said, ensure_ascii=False).replace('"@"', "@") + "\n"


LONG = "x" * 300_000
GOOD = '{"jsonrpc": "2.0", "id": @, "result": {"content": "good"}}'
ODD = {
    "good": f"instead {GOOD}",
    "fails": json.dumps({"content": "no stock", "isError": "true"}),
    "long": json.dumps({"content": LONG}),
    "inner": f'instead {{"result": {{"rows": [{{"id": 42}}], "text": "{LONG}"}}, "id": @}}',
    "last": f'instead {{"text": "{LONG}", "jsonrpc": "2.0", "id": @}}',
    "flood": "instead " + "".join(map(progress, range(5000))) + GOOD,
    "own": "instead " + progress("@").replace('"@"', "@") * 20 + GOOD,
    "nonsense": "instead " + "}{\n" * 500 + GOOD,
}


@pytest.fixture
def odd(tmp_path, monkeypatch):
    monkeypatch.setattr(_process, "LONGEST_LINE", 100_000)
    (tmp_path / "plan.json").write_text(json.dumps({"results": ODD}))
    entry = {"command": sys.executable, "args": ["-S", str(SERVER), str(tmp_path / "plan.json")]}
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"odd": entry}}))
    yield ToolRunner("odd", tmp_path / "servers.json")
    close()


def test_a_server_that_declares_a_failure_as_text_has_failed(odd):
    with pytest.raises(ToolCallError, match="no stock"):
        odd.run_sync("fails", {})


def told(runner, *names):
    """Return the progress that simultaneous calls report, each by itself."""

    async def call(name):
        reports = []

        async def on_progress(progress, *_):
            reports.append(progress)

        assert (await runner.forward(name, {}, on_progress=on_progress)).content[0].text == "good"
        return reports

    async def job():
        return await asyncio.gather(*map(call, names))

    return asyncio.run(job())


def test_the_last_of_many_progress_reports_is_passed_on(odd, caplog):
    assert told(odd, "flood")[0][-1] == 4999
    assert not [it for it in caplog.records if "parse" in it.getMessage()], caplog.text


def test_simultaneous_calls_each_get_their_own_progress_reports(odd):
    reports = [set(it) for it in told(odd, *["own"] * 20)]
    assert all(len(it) == 1 for it in reports)
    assert len(set.union(*reports)) == 20


@pytest.mark.parametrize("name", ["long", "inner", "last"])
def test_a_call_whose_answer_is_too_long_reports_that_it_was_carried_out(odd, name):
    with pytest.raises(ToolCallError, match=r"was carried out\. .* longer than"):
        odd.call(name, {})
    assert odd.run_sync("good", {}) == "good"


def test_lines_that_are_no_messages_are_ignored_without_a_word(odd, caplog):
    assert odd.run_sync("nonsense", {}) == "good"
    assert not caplog.records
