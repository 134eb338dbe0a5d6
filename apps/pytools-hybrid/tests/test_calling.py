"""The profile `call`: find a tool of an MCP server and call it, in two calls over MCP."""

import asyncio
import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import (
    CreateMessageResult,
    ElicitResult,
    InputRequiredResult,
    ListRootsResult,
    TextContent,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pytools_hybrid import SettingsError, load_tool
from pytools_hybrid.serve.forms import compact_form
from pytools_hybrid.serve.http import check_exposure
from toolimport import ImportOptions, import_servers
from toolimport.runtime import close

from .conftest import PATIENCE

pytestmark = pytest.mark.anyio

SERVER = '''
import os
from typing import Literal
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import (
    CallToolResult, CreateMessageRequest, CreateMessageRequestParams, ElicitRequest,
    ElicitRequestFormParams, InputRequiredResult, ListRootsRequest, ResourceLink, ToolAnnotations,
)

server = MCPServer("shop")

@server.tool(annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True))
def brew_time(tea: Literal["green", "black"], cups: int = 1) -> int:
    """Say how many minutes a tea has to brew."""
    return 3 * cups

@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def empty_shelf(shelf: str) -> str:
    """Throw all tea of a shelf away."""
    raise ToolError(f"there is no shelf {shelf}")

@server.tool()
def show_label() -> Image:
    """Show a picture of the label."""
    return Image(data=b"png", format="png")

@server.tool()
def show_book() -> CallToolResult:
    """Point to the recipe book."""
    link = ResourceLink(type="resource_link", uri="book://1", name="book")
    meta = {
        "shop/pages": 12, "pytools/search_id": "1", "pytools/notes": ["all is well"],
        "io.modelcontextprotocol/serverInfo": {"name": "shop"},
    }
    return CallToolResult(content=[link], _meta=meta)

@server.tool()
async def boil(degrees: int, ctx: Context) -> str:
    """Boil water, and tell how far it is."""
    await ctx.report_progress(50, 100, "warm")
    return ctx.request_context.meta.get("shop/customer", "")

@server.tool()
async def tell_trace(ctx: Context) -> str:
    """Tell which trace a call is a part of."""
    return ctx.request_context.meta.get("traceparent", "")

@server.tool()
def break_kettle() -> str:
    """Break the kettle."""
    os._exit(1)

@server.tool()
async def wait_for_guests() -> str:
    """Wait for guests who never come."""
    import anyio
    open(os.environ["STARTED"], "w").close()
    await anyio.sleep_forever()

SUGAR = {"type": "integer", "title": "Sugar\\x1b[2J"}
FORM = {"type": "object", "properties": {"sugar": SUGAR}}
MESSAGE = {"role": "user", "content": {"type": "text", "text": "Describe it."}}

@server.tool()
async def ask(ctx: Context, about: str = "") -> CallToolResult | InputRequiredResult:
    """Ask for what is missing."""
    able = ctx.client_capabilities
    asked = {}
    if able.elicitation:
        form = ElicitRequestFormParams(message=f"How sweet?{about}", requested_schema=FORM)
        asked["user"] = ElicitRequest(params=form)
    if able.sampling:
        message = CreateMessageRequestParams(messages=[MESSAGE], max_tokens=9)
        asked["model"] = CreateMessageRequest(params=message)
    if able.roots:
        asked["roots"] = ListRootsRequest()
    if asked and not ctx.input_responses:
        return InputRequiredResult(input_requests=asked, request_state="brewing")
    answers = {
        name: it.model_dump(mode="json", by_alias=True, exclude_none=True)
        for name, it in (ctx.input_responses or {}).items()
    }
    return CallToolResult(content=[], structured_content=answers)

server.run("stdio")
'''
# A server with an older protocol, which asks the client by sending requests.
OLD_SERVER = """
import json, sys

def send(**message):
    print(json.dumps({"jsonrpc": "2.0"} | message), flush=True)

SUGAR = {"type": "integer", "title": "Sugar\\x1b[2J"}
FORM = {"type": "object", "properties": {"sugar": SUGAR}}
MESSAGE = {"role": "user", "content": {"type": "text", "text": "Describe it."}}
able, open_ = {}, {}

def end(call):
    if not any(it is None for it in open_[call].values()):
        content = {"content": [], "structuredContent": open_.pop(call)}
        send(id=call, result=content)

for line in sys.stdin:
    message = json.loads(line)
    given = message.get("params") or {}
    match message.get("method"):
        case "initialize":
            able = given["capabilities"]
            about = {"serverInfo": {"name": "old", "version": "1"}, "capabilities": {"tools": {}}}
            send(id=message["id"], result={"protocolVersion": "2025-06-18"} | about)
        case "tools/list":
            tool = {"name": "ask", "description": "Ask.", "inputSchema": {"type": "object"}}
            send(id=message["id"], result={"tools": [tool]})
        case "tools/call":
            call, about = message["id"], given["arguments"].get("about", "")
            form = {"message": f"How sweet?{about}", "requestedSchema": FORM}
            if about.startswith("https:"):
                form = {"message": "Pay.", "mode": "url", "url": about, "elicitationId": "1"}
            asked = {
                "user": ("elicitation", "elicitation/create", form),
                "model": (
                    "sampling", "sampling/createMessage", {"messages": [MESSAGE], "maxTokens": 9}
                ),
                "roots": ("roots", "roots/list", {}),
            }
            open_[call] = {name: None for name, it in asked.items() if it[0] in able}
            for name in open_[call]:
                send(id=f"{call} {name}", method=asked[name][1], params=asked[name][2])
            end(call)
        case None:
            call, _, name = message["id"].partition(" ")
            if int(call) in open_:
                open_[int(call)][name] = message.get("result") or message["error"]
                end(int(call))
        case "notifications/cancelled":
            if open_.pop(given["requestId"], None) is not None:
                open(sys.argv[1], "w").close()
        case _ if "id" in message:
            send(id=message["id"], error={"code": -32601, "message": "unknown"})
"""


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """A tree with the tools of a server, and a Python tool."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop.py").write_text(SERVER)
    entry = {
        "command": sys.executable,
        "args": [str(folder / "shop.py")],
        "env": {"STARTED": str(folder / "started")},
    }
    (folder / "old.py").write_text(OLD_SERVER)
    old = {"command": sys.executable, "args": ["-S", str(folder / "old.py"), str(folder / "ended")]}
    servers = {"mcpServers": {"shop": entry, "old": old}}
    (folder / "servers.json").write_text(json.dumps(servers))

    async def job():
        return await import_servers(
            folder / "servers.json", folder / "tools", ImportOptions(seconds=120)
        )

    assert [report.error for report in anyio.run(job)] == ["", ""]
    module = folder / "tools/gentools/tea/taste/api.py"
    module.parent.mkdir(parents=True)
    module.write_text("def run(tea: str) -> str:\n    '''Taste a tea.'''\n")
    yield folder
    close()


async def call(client, name, **arguments):
    given = {"id": f"mcptools:shop:{name}", "arguments": arguments}
    return await client.call_tool("call_tool", given)


async def refusal(client, name, **arguments):
    result = await call(client, name, **arguments)
    assert result.is_error
    return result.content[0].text


@pytest.fixture
def traced(monkeypatch):
    """Trace this process; return a function that returns spans by name with their parents."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("pytools_hybrid.telemetry._tracer", provider.get_tracer("tests"))
    monkeypatch.setattr("mcp.shared._otel._tracer", provider.get_tracer("mcp"))

    def spans(trace_id):
        found = {
            span.context.span_id: span
            for span in exporter.get_finished_spans()
            if span.context.trace_id == trace_id
        }
        return {
            span.name: (span, span.parent and getattr(found.get(span.parent.span_id), "name", ""))
            for span in found.values()
        }

    spans.tracer = provider.get_tracer("tests")
    return spans


async def test_a_tool_is_found_and_called_in_two_calls(served):
    async with served() as client:
        found = await client.call_tool("search_tools", {"query": "how long does tea brew"})
        first = found.structured_content["result"][0]
        assert first["id"] == "mcptools:shop:brew_time"
        assert first["hints"] == ["read-only", "idempotent"]
        assert first["input_schema"]["properties"]["tea"]["enum"] == ["green", "black"]
        arguments = {"id": first["id"], "arguments": {"tea": "green", "cups": 2}}
        result = await client.call_tool("call_tool", arguments)
        assert result.structured_content == {"result": 6}
        assert result.content[0].text == "6"


async def test_searches_and_calls_are_counted_by_interface_and_outcome(served, counted):
    async with served() as client:
        assert not (await call(client, "brew_time", tea="green")).is_error
        await refusal(client, "empty_shelf", shelf="7")
        await refusal(client, "brew_time", tea="milk")
        await refusal(client, "no_such_tool")
        await client.call_tool("search_tools", {"query": "taste a tea"})
        transport = httpx2.ASGITransport(client.app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as api:
            await api.get("/search?q=tea&mode=bm25")
            path = "/api/v1/tools/shop__brew_time/call"
            await api.post(path, json={"arguments": {"tea": "green"}})
        (found,) = await client.search.search("taste a tea", limit=1)
        await load_tool(found).call({"tea": "green"})

    numbers = counted()
    assert {
        "pytools_calls_total(mcp, shop, ok)": 1,
        "pytools_calls_total(mcp, shop, error)": 1,
        "pytools_calls_total(mcp, shop, refused)": 1,
        "pytools_calls_total(mcp, , refused)": 1,
        "pytools_calls_total(http, shop, ok)": 1,
        "pytools_calls_total(python, tea, ok)": 1,
        "pytools_call_seconds_count(mcp, shop)": 3,
        "pytools_searches_total(mcp, hybrid, found)": 1,
        "pytools_searches_total(http, bm25, found)": 1,
        "pytools_searches_total(python, hybrid, found)": 1,
    }.items() <= numbers.items()


async def test_other_results_have_one_line_of_input_or_why_they_cannot_be_called(served):
    async with served() as client:
        asked = {"query": "brew time of a tea, taste it, boil", "mode": "bm25", "limit": 10}
        found = await client.call_tool("search_tools", asked)
        results = {it["id"].rpartition(":")[2]: it for it in found.structured_content["result"]}
        first = next(iter(results))
        assert results["taste"]["not_callable"].startswith("only tools imported from MCP servers")
        inputs = {name: it.get("input") for name, it in results.items() if name != first}
        assert inputs["boil"] == "{degrees: integer}"
        assert all("path" not in it and "signature" not in it for it in results.values())


async def test_search_is_annotated_as_read_only_and_call_tool_as_destructive(served):
    async with served() as client:
        tools = {it.name: it.annotations for it in (await client.list_tools()).tools}
        assert list(tools) == ["search_tools", "describe_tool", "call_tool", "report_outcome"]
        assert tools["search_tools"].read_only_hint
        assert not tools["search_tools"].open_world_hint
        assert not tools["call_tool"].read_only_hint
        assert tools["call_tool"].destructive_hint


async def test_a_description_has_the_servers_schema_and_hints(served):
    async with served() as client:
        asked = {"id": "mcptools:shop:brew_time"}
        told = (await client.call_tool("describe_tool", asked)).structured_content
        assert told["input_schema"]["required"] == ["tea"]
        assert told["annotations"] == {"readOnlyHint": True, "idempotentHint": True}


async def test_invalid_arguments_are_reported_with_the_valid_form(served):
    async with served() as client:
        assert await refusal(client, "brew_time", tea="red") == (
            'mcptools:shop:brew_time was not called: tea is "red"; it must be one of "green", '
            '"black". It takes {tea: "green"|"black", cups?: integer}.'
        )
        given = {"id": "mcptools:shop:brew_time", "arguments": '{"tea": "green"}'}
        assert not (await client.call_tool("call_tool", given)).is_error
        given["arguments"] = "green"
        (text,) = (await client.call_tool("call_tool", given)).content
        assert text.text == "arguments is 'green'; give an object."


async def test_images_links_and_meta_are_passed_on_with_a_note_on_unreadable_links(served):
    async with served() as client:
        (picture,) = (await call(client, "show_label")).content
        assert (picture.type, picture.mime_type) == ("image", "image/png")
        book = await call(client, "show_book")
        assert [it.type for it in book.content] == ["resource_link", "text"]
        assert "cannot read them" in book.content[1].text
        assert book.meta["shop/pages"] == 12
        assert not [key for key in book.meta if key.startswith("pytools/")]
        transport = httpx2.ASGITransport(client.app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as api:
            path = "/api/v1/tools/shop__show_book/call"
            assert (await api.post(path, json={})).json()["_meta"] == {"shop/pages": 12}


async def test_a_call_is_an_outcome_of_the_session_s_search_for_the_tool(served):
    async with served() as client:
        await call(client, "brew_time", tea="green")
        before = await client.index.statistics()
        await client.call_tool("search_tools", {"query": "how long does tea brew"})
        await call(client, "brew_time", tea="green")
        await client.index.recorder.flush()
        after = await client.index.statistics()

    assert (before.judged, after.judged) == (0, 1)
    assert after.first_accepted == 1


async def test_progress_and_meta_are_passed_on(served):
    told = []

    async def on_progress(progress, total, message):
        told.append((progress, total, message))

    async with served() as client:
        result = await client.call_tool(
            "call_tool",
            {"id": "mcptools:shop:boil", "arguments": {"degrees": 90}},
            progress_callback=on_progress,
            meta={"shop/customer": "ada"},
        )
    assert result.content[0].text == "ada"
    assert told == [(50.0, 100.0, "warm")]


async def test_a_server_s_error_is_passed_on_and_a_crash_is_an_error(served):
    async with served() as client:
        assert "there is no shelf 7" in await refusal(client, "empty_shelf", shelf="7")
        assert "ended before it answered" in await refusal(client, "break_kettle")
        assert not (await call(client, "brew_time", tea="black")).is_error


async def test_a_call_without_an_answer_times_out(served, monkeypatch):
    async with served() as client:
        await call(client, "brew_time", tea="black")
        monkeypatch.setenv("PYTOOLS_CALL_TIMEOUT", "0.2")
        assert "no answer within 0.2 s" in await refusal(client, "wait_for_guests")


async def test_a_cancelled_call_leaves_the_server_working(served, imported):
    (imported / "started").unlink(missing_ok=True)
    async with served() as client:
        async with anyio.create_task_group() as group:
            group.start_soon(call, client, "wait_for_guests")
            await until((imported / "started").exists)
            group.cancel_scope.cancel()
        assert not (await call(client, "brew_time", tea="black")).is_error


async def test_concurrent_calls_get_their_own_answers(served):
    async with served() as client:
        jobs = (call(client, "brew_time", tea="green", cups=cups) for cups in range(64))
        results = await asyncio.gather(*jobs)
    assert [it.structured_content["result"] for it in results] == [3 * it for it in range(64)]


async def test_calls_are_in_the_usage_record_without_their_arguments(served):
    async with served() as client:
        await call(client, "brew_time", tea="green")
        await call(client, "empty_shelf", shelf="7")
        await call(client, "brew_time", tea="red")
        usage = client.index.store.usage
        await client.index.flush()
        # If another thread keeps the index locked for long, the record is written later.
        await until(lambda: usage.of_tool("mcptools:shop:empty_shelf"))
        brewed = usage.of_tool("mcptools:shop:brew_time")
        assert (brewed.observations, brewed.successes) == (1, 1)
        assert brewed.latency_p50_ms > 0
        assert usage.of_tool("mcptools:shop:empty_shelf").successes == 0


@pytest.mark.parametrize("hiding", [{"exclude": "*:*:empty*"}, {"include": "*:*:brew*"}])
async def test_a_hidden_tool_cannot_be_called_by_guessing_its_id(served, hiding):
    async with served(**hiding) as client:
        assert "Unknown tool" in await refusal(client, "empty_shelf", shelf="7")


async def test_in_read_only_mode_only_tools_annotated_as_read_only_are_called(served):
    async with served(read_only=True) as client:
        assert "annotated as read-only" in await refusal(client, "empty_shelf", shelf="7")
        assert not (await call(client, "brew_time", tea="green")).is_error
        tools = {it.name: it.annotations for it in (await client.list_tools()).tools}
        assert tools["call_tool"].read_only_hint


async def test_a_pinned_tool_has_its_own_name_and_schema(served):
    pins = "mcptools:shop:brew_time,mcptools:shop:gone,gentools:tea:taste"
    async with served(pin=pins) as client:
        *_, pinned = (await client.list_tools()).tools
        assert pinned.name == "brew_time"
        assert pinned.input_schema["required"] == ["tea"]
        assert pinned.annotations.read_only_hint
        assert pinned.meta == {"anthropic/alwaysLoad": True}
        result = await client.call_tool("brew_time", {"tea": "green"})
        assert result.structured_content == {"result": 3}
        wrong = await client.call_tool("brew_time", {})
        assert "tea is missing" in wrong.content[0].text


async def test_a_tree_imported_by_an_older_version_can_be_called(served, imported):
    file = imported / "tools/mcptools/shop/_manifest.json"
    before = file.read_text()
    file.write_text(json.dumps({**json.loads(before), "definitions": {}}))
    try:
        async with served() as client:
            assert not (await call(client, "brew_time", tea="green")).is_error
            assert "must be one of" in await refusal(client, "brew_time", tea="red")
    finally:
        file.write_text(before)


def test_calling_tools_over_http_requires_a_token(settings):
    with pytest.raises(SettingsError, match="set a token"):
        check_exposure(settings(tools="call", transport="http"))
    check_exposure(settings(tools="call", transport="http", token="secret"))


@pytest.mark.parametrize("pin", ["create_issue", "mcptools:*:x"])
def test_a_pin_must_be_an_id(settings, pin):
    with pytest.raises(SettingsError, match="is not an id"):
        settings(pin=pin)


@pytest.mark.parametrize(
    ("schema", "form"),
    [
        ({}, "{[name]: any}"),
        ({"properties": {}}, "{}"),
        ({"additionalProperties": {"type": "integer"}}, "{[name]: integer}"),
        ({"properties": {}, "patternProperties": {"^x-": {}}}, "{[name]: any}"),
        (
            {"properties": {"a": {}}, "additionalProperties": True},
            "{a?: any, [name]: any}",
        ),
        (
            {"properties": {"b": {"type": "string"}, "a": {}}, "required": ["a"]},
            "{a: any, b?: string}",
        ),
        (
            {"properties": {"x": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}},
            "{x?: integer|null}",
        ),
        (
            {"properties": {"x": {"type": ["string", "null"], "default": None}}},
            "{x?: string}",
        ),
        ({"properties": {"n": {"type": "integer", "minimum": 1}}}, "{n?: integer(>=1)}"),
        (
            {
                "properties": {"e": {"type": "array", "items": {"$ref": "#/$defs/edit"}}},
                "$defs": {"edit": {"properties": {"old": {"type": "string"}}}},
            },
            "{e?: {old?: string}[]}",
        ),
        ({"properties": {"x": {"$ref": "#/properties/x"}}}, "{x?: any}"),
        ({"properties": {"x": {"$ref": "#/nowhere/0"}, "a\n b": 3}}, '{x?: any, "a\\n b"?: any}'),
        ({"properties": [1], "required": 3}, "{}"),
        ({"properties": {f"p{n}": {} for n in range(99)}}, "{p0?: any, p1?: any, … 97 more}"),
    ],
)
def test_a_schema_is_described_in_one_line(schema, form):
    assert compact_form(schema, length=30 if "p98" in str(schema) else 300) == form


async def test_servers_of_a_tree_not_imported_by_this_user_are_not_started(
    served, trusted, imported, monkeypatch
):
    for note in (trusted / "imported").iterdir():
        note.unlink()
    async with served() as client:
        found = await client.call_tool("search_tools", {"query": "how long does tea brew"})
        assert "you have not imported" in found.structured_content["result"][0]["not_callable"]
        assert "run pytools-hybrid import" in await refusal(client, "brew_time", tea="green")

        monkeypatch.setenv("PYTOOLS_SERVERS", str(imported / "servers.json"))
        assert not (await call(client, "brew_time", tea="green")).is_error


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_user_is_asked_before_calling_tools_that_need_confirmation(served, mode):
    asked, actions = [], ["accept", "decline"]

    async def ask(_, params):
        asked.append(params.message)
        return ElicitResult(action=actions[len(asked) - 1], content={})

    async with served(ask, mode=mode, confirm="*:brew_*") as client:
        assert not (await call(client, "brew_time", tea="green")).is_error
        assert "declined by the user" in await refusal(client, "brew_time", tea="green")
        assert not (await call(client, "show_label")).is_error
    assert asked == ['Call mcptools:shop:brew_time with {"tea": "green"}?'] * 2


async def test_a_confirmation_is_only_valid_for_the_call_that_asked_for_it(served):
    given = {"id": "mcptools:shop:brew_time", "arguments": {"tea": "green"}}
    others = [{**given, "arguments": {"tea": "black"}}, {**given, "id": "mcptools:shop:boil"}]
    async with served(lambda *_: None, confirm="*:brew_*") as client:
        made = client.session.call_tool
        asked = await made("call_tool", given, allow_input_required=True)
        answers = {key: ElicitResult(action="accept", content={}) for key in asked.input_requests}
        answered = {"request_state": asked.request_state, "input_responses": answers}
        for other in others:
            with pytest.raises(MCPError, match="requestState"):
                await made("call_tool", other, **answered)
        assert not (await made("call_tool", given, **answered)).is_error


async def test_a_call_that_needs_confirmation_is_refused_if_the_client_cannot_ask(served):
    async with served(confirm="*:brew_*") as client:
        assert "cannot ask its user" in await refusal(client, "brew_time", tea="green")


async def sampled(_, params):
    (message,) = params.messages
    text = TextContent(text=f"{message.content.text} Dark.")
    return CreateMessageResult(role="assistant", content=text, model="m")


async def roots(_):
    return ListRootsResult(roots=[{"uri": Path("/tea").as_uri(), "name": "tea"}])


async def asked_by(client, server, about=""):
    given = {"id": f"mcptools:{server}:ask", "arguments": {"about": about} if about else {}}
    result = await client.call_tool("call_tool", given)
    assert not result.is_error, result.content
    return result.structured_content


@pytest.mark.parametrize("server", ["shop", "old"])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_client_answers_a_server_s_questions_during_a_call(served, server, mode):
    messages = []

    async def ask(_, params):
        messages.append((params.message, params.requested_schema["properties"]))
        return ElicitResult(action="accept", content={"sugar": 2})

    callbacks = {"sampling_callback": sampled, "list_roots_callback": roots}
    async with served(ask, mode, callbacks) as client:
        answers = await asked_by(client, server)
    assert messages == [
        (f"[{server}] How sweet?", {"sugar": {"type": "integer", "title": "Sugar [2J"}})
    ]
    assert answers["user"]["content"] == {"sugar": 2}
    assert answers["model"]["content"]["text"] == "Describe it. Dark."
    assert answers["roots"]["roots"][0]["name"] == "tea"


async def test_the_user_is_only_sent_to_urls_without_invisible_characters(served):
    async def ask(_, params):
        return ElicitResult(action="accept")

    async with served(ask) as client:
        sent = await asked_by(client, "old", about="https://tea.example/")
        refused = await asked_by(client, "old", about="https://tea.example/\x1b[2J")
    assert sent["user"] == {"action": "accept"}
    assert "invisible characters" in refused["user"]["message"]


@pytest.mark.parametrize("server", ["shop", "old"])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_servers_know_which_questions_a_client_can_answer(served, server, mode):
    async with served(mode=mode, callbacks={"list_roots_callback": roots}) as client:
        assert list(await asked_by(client, server)) == ["roots"]
    async with served(mode=mode) as client:
        assert await asked_by(client, server) == {}


@pytest.mark.parametrize("server", ["shop", "old"])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_questions_of_concurrent_calls_get_their_own_answers(served, server, mode):
    both = anyio.Event()
    messages = []

    async def ask(_, params):
        messages.append(params.message)
        if len(messages) == 2:
            both.set()
        await both.wait()
        return ElicitResult(action="accept", content={"sugar": int(params.message[-1])})

    async with served(ask, mode) as client:
        jobs = (asked_by(client, server, about=f" {number}") for number in (1, 2))
        found = await asyncio.gather(*jobs)
    assert [it["user"]["content"]["sugar"] for it in found] == [1, 2]


async def test_a_call_cancelled_during_a_question_is_cancelled_on_its_server(served, imported):
    asked = anyio.Event()

    async def ask(*_):
        asked.set()
        await anyio.sleep_forever()

    (imported / "ended").unlink(missing_ok=True)
    async with served(ask, "legacy") as client, anyio.create_task_group() as group:
        group.start_soon(asked_by, client, "old")
        await asked.wait()
        group.cancel_scope.cancel()
    await until((imported / "ended").exists)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_question_that_is_never_answered_times_out(served, mode, monkeypatch):
    async def ask(*_):
        await anyio.sleep_forever()

    given = {"id": "mcptools:old:ask", "arguments": {}}
    async with served(ask, mode) as client:
        made = client.session.call_tool
        # Fractions of a call's time limit, which must remain long enough to start the server. On a
        # busy machine, a question may time out before it is asked.
        for patience in (0.001, 0.01, 0.1, 1):
            monkeypatch.setattr("toolimport.runtime._connection._PATIENCE", patience)
            result = await made("call_tool", given, allow_input_required=True)
            if mode == "legacy" or isinstance(result, InputRequiredResult):
                break
        while isinstance(result, InputRequiredResult):
            state = result.request_state
            result = await made("call_tool", given, request_state=state, allow_input_required=True)
        assert "did not answer" in result.structured_content["user"]["message"]
        if mode == "auto":
            late = await made("call_tool", given, request_state=state)
            assert "has ended; call the tool again" in late.content[0].text


async def test_the_json_api_calls_tools_by_the_same_rules(served):
    async with served(token="secret", transport="http", exclude="*:empty_*") as client:
        transport = httpx2.ASGITransport(client.app, raise_app_exceptions=False)
        headers = {"Authorization": "Bearer secret"}
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://127.0.0.1:8000", headers=headers
        ) as api:

            async def post(name, arguments, **headers):
                path = f"/api/v1/tools/{name}/call"
                return await api.post(path, json={"arguments": arguments}, headers=headers)

            found = await post("shop__brew_time", {"tea": "green"})
            assert found.json()["structuredContent"] == {"result": 3}
            book = (await post("shop__show_book", {})).json()
            assert "cannot read them" in book["content"][1]["text"]
            assert book["_meta"] == {"shop/pages": 12}
            assert (await post("shop__brew_time", {"tea": "red"})).status_code == 422
            assert (await post("shop__empty_shelf", {"shelf": "1"})).status_code == 404
            assert (await post("shop__break_kettle", {})).status_code == 502
            unknown = await post("shop__brew_time", {}, Authorization="Bearer wrong")
            assert unknown.status_code == 401
            paths = (await api.get("/openapi.json")).json()["paths"]
            assert "post" in paths["/api/v1/tools/{id}/call"]


PYTHON = {
    "add": """
def run(a: int, b: int = 1) -> int:
    '''Add numbers.'''
    print("adding")
    return a + b
""",
    "crash": """
import os
def run() -> str:
    '''Crash.'''
    os._exit(7)
""",
    "fork": """
import subprocess, sys, time
def run(file: str) -> str:
    '''Leave a child.'''
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", file])
    open(file, "w").close()
    time.sleep(600)
""",
    "grab": """
def run() -> int:
    '''Take all memory.'''
    return len(bytearray(4 << 30))
""",
    "flood": """
def run() -> str:
    '''Print a lot.'''
    print("x" * 10_000_000)
    return "y" * 1_000_000
""",
    "fail": """
async def run() -> str:
    '''Fail.'''
    raise ValueError("no \\x1b[31m tea")
""",
    "stay": """
import os
def run() -> str:
    '''Leave a child that answers too.'''
    return "child" if os.fork() == 0 else "parent"
""",
    "daemon": """
import os, time
def run(file: str) -> str:
    '''Leave a daemon that keeps all streams open.'''
    if os.fork() == 0:
        os.setsid()
        while os.path.exists(file):
            time.sleep(0.01)
        os._exit(0)
    return "left"
""",
    "move": """
import os, sys
def run() -> str:
    '''Change the process.'''
    os.chdir("/")
    os.environ["PATH"] = ""
    sys.path.clear()
    sys.modules["json"] = None
    os.umask(0o777)
    return os.getcwd()
""",
    "deep": """
def run() -> list:
    '''Nest lists.'''
    nested = []
    for _ in range(400):
        nested = [nested]
    return nested
""",
    "half": """
def run() -> str:
    '''Return half of a pair.'''
    return "tea \\ud83c"
""",
    "close": """
import os
def run() -> str:
    '''Close what is printed to.'''
    os.close(1)
    return "closed"
""",
    "leave": """
import os, signal
def run() -> str:
    '''Close all, and be ended from outside.'''
    os.closerange(0, 100)
    os.kill(os.getpid(), signal.SIGKILL)
""",
    "wait": """
import pathlib, time
def run(file: str, number: int) -> int:
    '''Wait until a file exists.'''
    for _ in range(12_000):
        if pathlib.Path(file).exists():
            return number
        time.sleep(0.01)
    return 0
""",
    "ask": """
import sys
def run() -> str:
    '''Read what nobody writes.'''
    return sys.stdin.read() or "nothing"
""",
}


@pytest.fixture
def running(served, imported):
    for name, source in PYTHON.items():
        module = imported / f"tools/gentools/odd/{name}/api.py"
        module.parent.mkdir(parents=True, exist_ok=True)
        module.write_text(source)

    return functools.partial(served, run_python=True)


async def until(condition):
    """Wait until a condition is true."""
    with anyio.fail_after(PATIENCE):
        while not condition():
            await anyio.sleep(0.01)


def processes():
    """Return the command lines of all processes."""
    return subprocess.run(
        ["ps", "axww"], capture_output=True, text=True, check=True, timeout=PATIENCE
    ).stdout


def edit(file, text):
    """Write a file, with another time than before on any file system."""
    before = file.stat()
    file.write_text(text)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 2_000_000_000))


async def run_tool(client, name, **arguments):
    given = {"id": f"gentools:odd:{name}", "arguments": arguments}
    result = await client.call_tool("call_tool", given)
    return result, "\n".join(it.text for it in result.content if it.type == "text")


async def test_python_tools_run_in_a_separate_process_if_allowed(running):
    async with running(run_python=False) as client:
        assert "`--run-python` would run" in (await run_tool(client, "add", a=1))[1]
    async with running(read_only=True) as client:
        assert "annotated as read-only" in (await run_tool(client, "add", a=1))[1]
    async with running() as client:
        result, text = await run_tool(client, "add", a=41)
        assert result.structured_content == {"result": 42}
        assert text == "42\n[output]\nadding\n"
        assert 'a is "x"' in (await run_tool(client, "add", a="x"))[1]
        assert (await run_tool(client, "ask"))[1] == "nothing"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has neither forks nor these limits")
async def test_calls_are_answered_after_a_python_tool_that_misbehaves(
    running, monkeypatch, tmp_path
):
    async with running(python_memory=512) as client:
        for name, said in {
            "crash": "its process ended (exit code 7)",
            "fail": "ValueError: no  [31m tea",
            "grab": "MemoryError",
            "leave": "its process ended (SIGKILL)",
        }.items():
            result, text = await run_tool(client, name)
            assert result.is_error
            assert said in text
            assert not (await run_tool(client, "add", a=1))[0].is_error

        for name, said in {
            "stay": "parent",
            "deep": "[[[",
            "half": "tea ?",
            "close": "closed",
            "move": "/",
        }.items():
            result, text = await run_tool(client, name)
            assert not result.is_error
            assert said in text
            assert (await run_tool(client, "add", a=1))[0].structured_content == {"result": 2}

        result, text = await run_tool(client, "flood")
        assert result.content[0].text.endswith(
            "[cut: 50,000 of 1,000,000 characters; ask for less]"
        )
        assert len(text) < 100_000
        assert "[the last of 10,000,001 bytes]" in text

        daemon = tmp_path / "daemon"
        daemon.touch()
        assert (await run_tool(client, "daemon", file=str(daemon)))[1] == "left"
        assert (await run_tool(client, "add", a=1))[0].structured_content == {"result": 2}
        daemon.unlink()

        begun = tmp_path / "begun"
        for seconds in (3, 10, PATIENCE):
            # On a busy machine, the tool may not have started within the first limit.
            monkeypatch.setenv("PYTOOLS_CALL_TIMEOUT", str(seconds))
            text = (await run_tool(client, "fork", file=str(begun)))[1]
            assert f"no result within {seconds} s" in text
            if begun.exists():
                break
        monkeypatch.delenv("PYTOOLS_CALL_TIMEOUT")
        assert begun.exists()
        await until(lambda: str(begun) not in processes())
        assert not (await run_tool(client, "add", a=1))[0].is_error


async def test_python_tools_run_at_the_same_time_and_below_a_relative_root(
    running, imported, monkeypatch, tmp_path
):
    monkeypatch.chdir(imported)
    file = tmp_path / "go"
    async with running(root="tools") as client:
        calls = [run_tool(client, "wait", file=str(file), number=it) for it in range(3)]
        waiting = [asyncio.create_task(call) for call in calls]
        assert (await run_tool(client, "add", a=1))[0].structured_content == {"result": 2}
        file.touch()
        answers = [(await it)[1] for it in waiting]
        more = [run_tool(client, "wait", file=str(file), number=it) for it in range(20)]
        answers += [text for _, text in await asyncio.gather(*more)]
    assert answers == [str(it) for it in (*range(3), *range(20))]


async def test_an_edited_python_tool_runs_with_its_current_code(running, imported):
    helper = imported / "tools/gentools/odd/helper.py"
    helper.write_text("ANSWER = 1\n")
    module = imported / "tools/gentools/odd/helped/api.py"
    module.parent.mkdir(parents=True)
    module.write_text(
        "from gentools.odd.helper import ANSWER\n\n"
        "def run() -> int:\n    '''Ask a helper.'''\n    return ANSWER\n"
    )
    async with running() as client:
        assert (await run_tool(client, "helped"))[1] == "1"
        edit(helper, "ANSWER = 22\n")
        assert (await run_tool(client, "helped"))[1] == "22"


async def test_a_search_over_http_is_one_trace_from_its_caller_to_the_channels(served, traced):
    trace_id, caller = 0x4BF92F3577B34DA6A3CE929D0E0E4736, "00f067aa0ba902b7"
    headers = {"traceparent": f"00-{trace_id:032x}-{caller}-01"}
    async with served(embedding_model="static") as client:
        await client.index.update()
        transport = httpx2.ASGITransport(client.app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as api:
            await api.get("/search", params={"q": "boil tea", "mode": "hybrid"}, headers=headers)

    spans = traced(trace_id)
    assert {name: parent for name, (_, parent) in spans.items()} == {
        "GET /search": "",
        "retrieval tools": "GET /search",
        "embeddings static:tools2": "retrieval tools",
        "channel bm25": "retrieval tools",
        "channel vector": "retrieval tools",
    }
    request, search = spans["GET /search"][0], spans["retrieval tools"][0]
    assert f"{request.parent.span_id:016x}" == caller
    assert request.attributes["http.response.status_code"] == 200
    assert dict(search.attributes) == {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.request.model": "static:tools2",
        "pytools.channels": ("bm25", "vector"),
        "pytools.lost": (),
        "pytools.mode": "hybrid",
        "pytools.outcome": "found",
        "pytools.results": search.attributes["pytools.results"],
        "pytools.transport": "http",
    }


async def test_a_call_is_one_trace_from_the_agent_to_the_tool_s_server(served, traced):
    async with served() as client:
        with traced.tracer.start_as_current_span("agent") as agent:
            told = (await call(client, "tell_trace")).structured_content["result"]
            await refusal(client, "empty_shelf", shelf="7")

    spans = traced(agent.get_span_context().trace_id)
    called, within = spans["execute_tool tell_trace"]
    sent, by = spans["MCP send tools/call tell_trace"]
    assert (within, by) == ("tools/call call_tool", called.name)
    assert told[:-3] == f"00-{sent.context.trace_id:032x}-{sent.context.span_id:016x}"
    assert called.attributes["gen_ai.operation.name"] == "execute_tool"
    assert called.attributes["gen_ai.tool.name"] == "tell_trace"
    assert called.attributes["pytools.outcome"] == "ok"
    assert spans["execute_tool empty_shelf"][0].attributes["error.type"] == "tool_error"
    # Arguments and results are not in traces.
    assert not any("shelf 7" in span.to_json() for span, _ in spans.values())


async def test_a_server_without_tracing_passes_on_the_client_s_trace(served):
    theirs = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    async with served() as client:
        given = {"id": "mcptools:shop:tell_trace"}
        result = await client.call_tool("call_tool", given, meta={"traceparent": theirs})

    assert result.structured_content["result"] == theirs
