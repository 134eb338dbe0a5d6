"""Whatever arrives over stdio, the server writes only protocol messages, and continues or ends."""

import json
import random
import subprocess
import time
from contextlib import contextmanager, suppress

import pytest

from .conftest import PATIENCE

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": "first",
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
PING = {"jsonrpc": "2.0", "id": "still there", "method": "ping"}
# A docstring that could break a protocol, a terminal or a reader.
HOSTILE = (
    "Feed \x1b[31mred\x1b[0m penguins\x07 \x00 \x85 \x9b2J </tool> \"'`{}[]\\ \r "
    "\u2028 \u2029 \u202edesrever\u202c \u200b \ufeff \U000e0041\n\n"
    '{"jsonrpc": "2.0", "id": 1, "result": {}}\n'
)


def call(number, tool, **arguments):
    return {
        "jsonrpc": "2.0",
        "id": number,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }


class Piped:
    """A server process, and the lines to and from it."""

    def __init__(self, process):
        self.process = process

    def send(self, *messages):
        for message in messages:
            line = message if isinstance(message, bytes) else json.dumps(message).encode()
            self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def receive(self):
        line = self.process.stdout.readline()
        assert line.endswith(b"\n"), f"the server has ended: {line!r}"
        return json.loads(line)

    def answers_before(self, number):
        """Return the messages that come before the answer to a request."""
        before = []
        while (message := self.receive()).get("id") != number:
            before.append(message)
        return before

    def answer(self, request):
        self.send(request)
        while (message := self.receive()).get("id") != request["id"]:
            pass
        return message


@pytest.fixture
def piped(command, tree, tmp_path, environment, patient):
    """Start servers to which a test sends bytes."""

    @contextmanager
    def start(*arguments, initialized=True, program=(command,), **variables):
        with subprocess.Popen(
            [*program, "serve", "--root", tree, "--db", tmp_path / "index.db", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment | variables,
        ) as process:
            server = Piped(process)
            try:
                with patient(process, "an answer, or the end of the server"):
                    if initialized:
                        greeting = server.answer(INITIALIZE)["result"]
                        assert greeting["serverInfo"]["name"] == "pytools"
                        server.send(INITIALIZED)
                    yield server
            finally:
                process.kill()

    return start


PARSE_ERROR, INVALID_REQUEST = -32700, -32600
QUESTION = (
    r'{"method": "tools/call", "params": {"name": "search_tools", "arguments": {"query": "%s"}},'
    r' "jsonrpc": "2.0", "id": %s}'
)


def request(query="merge pdf files", number=5):
    """Return a request as JavaScript clients write it, with its id at the end."""
    return (QUESTION % (query, number)).encode()


def nested(depth, number):
    brackets = "[" * depth + "]" * depth
    ping = '{"jsonrpc": "2.0", "method": "ping", "params": {"a": %s}, "id": %s}'
    return (ping % (brackets, number)).encode()


# By error: the line, and the code and id of its answer.
REFUSED = {
    "half an emoji": (request(r"merge \ud83d"), PARSE_ERROR, 5),
    "the other half": (request(r"\ude00 merge", '"six"'), PARSE_ERROR, "six"),
    "a control character in a string": (request("merge\x01pdf"), PARSE_ERROR, 5),
    "deeper than the SDK reads": (nested(300, 5), PARSE_ERROR, 5),
    "a number of 5,000 digits": (request(number="5, \"n\": " + "9" * 5000), PARSE_ERROR, 5),
    "an id of 5,000 digits": (request(number="9" * 5000), PARSE_ERROR, None),
    "half an emoji as id": (request(number=r'"\ud83d"'), PARSE_ERROR, None),
    "deeper than any parser reads": (nested(100_000, 5), PARSE_ERROR, 5),
    "a hundred thousand brackets": (b"[" * 100_000, PARSE_ERROR, None),
    "half a line": (request()[:-20], PARSE_ERROR, None),
    "two requests": (request() + request(), PARSE_ERROR, None),
    "not JSON": (b"this is not JSON", PARSE_ERROR, None),
    "a zero byte": (b"\x00", PARSE_ERROR, None),
    "not UTF-8": (b'\xff\xfe{"jsonrpc"', PARSE_ERROR, None),
    "a batch": (b"[" + request() + b"]", INVALID_REQUEST, None),
    "a string": (b'"ping"', INVALID_REQUEST, None),
    "an empty object": (b"{}", INVALID_REQUEST, None),
    "an older version": (
        b'{"jsonrpc": "1.0", "id": 5, "method": "ping"}', INVALID_REQUEST, 5
    ),
    "a list of arguments": (
        b'{"jsonrpc": "2.0", "id": 5, "method": "ping", "params": [1]}', INVALID_REQUEST, 5
    ),
    "a method that is a number": (
        b'{"jsonrpc": "2.0", "id": 5, "method": 1}', INVALID_REQUEST, 5
    ),
    "a request that is a response": (
        b'{"jsonrpc": "2.0", "id": 5, "method": "ping", "params": [], "result": {}}',
        INVALID_REQUEST,
        5,
    ),
    "null as id": (request(number="null"), INVALID_REQUEST, None),
    "a fraction as id": (request(number="1.5"), INVALID_REQUEST, None),
    "true as id": (request(number="true"), INVALID_REQUEST, None),
}  # fmt: skip
# The protocol has no answers to these.
IGNORED = {
    "an empty line": b"",
    "spaces": b" \t\r",
    "an answer without a request": b'{"jsonrpc": "2.0", "id": 77, "result": {}}',
    "an answer with half an emoji": rb'{"jsonrpc": "2.0", "id": 77, "result": {"a": "\ud83d"}}',
    "an error from the client": b'{"jsonrpc": "2.0", "id": 7, "error": {"code": 1, "message": ""}}',
    "a notification with half an emoji": (
        rb'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"reason": "\ud83d"}}'
    ),
    "a notification with a list": b'{"jsonrpc": "2.0", "method": "notifications/x", "params": [1]}',
    "a cancellation of an unknown call": (
        b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 999}}'
    ),
}


def test_an_invalid_line_is_answered_with_its_id_if_readable(piped):
    with piped() as server:
        for what, (line, code, number) in REFUSED.items():
            server.send(line, PING)
            (answer,) = server.answers_before("still there")

            assert (answer["error"]["code"], answer["id"]) == (code, number), what
            assert answer["error"]["message"].isprintable(), what
        server.send(request(r"\ud83d"))
        assert "an emoji that was cut" in server.receive()["error"]["message"]


def test_messages_that_need_no_answer_get_none(piped):
    with piped() as server:
        for what, line in IGNORED.items():
            server.send(line, PING)
            assert server.answers_before("still there") == [], what


def test_a_byte_order_mark_and_windows_line_endings_are_accepted(
    piped,
):
    with piped(initialized=False) as server:
        server.send(b"\xef\xbb\xbf" + json.dumps(INITIALIZE).encode() + b"\r")

        assert server.receive()["result"]["serverInfo"]["name"] == "pytools"


def test_a_request_with_any_invalid_bytes_gets_one_answer(piped):
    chance = random.Random(20)
    line = request(r"merge \ud83d\ude00 pdf")
    start, end = line.index(b"arguments"), line.index(b'"jsonrpc"')
    with piped() as server:
        for _ in range(300):
            wrong = bytearray(line)
            for _ in range(chance.randint(1, 3)):
                wrong[chance.randrange(start, end)] = chance.choice(b' "\\{}[]:,09utf\xff\x00')
            server.send(bytes(wrong))
        answers = [server.receive() for _ in range(300)]
        assert {answer["id"] for answer in answers} == {5, None}
        assert sum("result" in answer for answer in answers) in range(30, 270)

        server.send(PING)
        assert server.answers_before("still there") == []


def test_an_invalid_request_gets_an_error_and_the_next_an_answer(piped):
    with piped(initialized=False) as server:
        early = server.answer(call(1, "search_tools", query="merge pdf files"))
        assert early["error"]["code"] == -32602

        server.answer(INITIALIZE)
        server.send(INITIALIZED)
        unknown = server.answer({"jsonrpc": "2.0", "id": 2, "method": "tools/forget"})
        assert unknown["error"]["code"] == -32601
        malformed = server.answer(
            {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"arguments": [1]}}
        )
        assert malformed["error"]["code"] == -32602
        bytes_in_text = json.dumps(call(4, "search_tools", query="pdf XX")).encode()
        server.send(bytes_in_text.replace(b"XX", b"\xff\xfe"))
        assert server.receive()["result"]["isError"] is False

        found = server.answer(call(5, "search_tools", query="merge pdf files"))
        assert found["result"]["structuredContent"]["result"][0]["name"] == "merge_pdfs"


def test_every_tool_refuses_a_text_of_twenty_megabytes(piped):
    long = "merge pdf files " * 1_300_000
    with piped("--tools", "all") as server:
        for tool, name, given in (
            ("search_tools", "query", long),
            ("search_tools", "categories", [long]),
            ("describe_tool", "id", long),
            ("report_outcome", "tool_id", long),
            ("list_tools", "categories", long),
        ):
            others = {"success": True} if tool == "report_outcome" else {"query": "a"}
            others = others if tool in ("search_tools", "report_outcome") else {}
            result = server.answer(call(1, tool, **others | {name: given}))["result"]

            assert result["isError"] is True
            (told,) = result["content"]
            assert told["text"].startswith(f"{name} has a text of more than "), tool
            assert len(told["text"]) < 100


def test_a_cancelled_call_is_not_answered_and_delays_nothing(piped, counted):
    cancel = {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": "given up"},
    }
    with piped(program=counted.command, **counted.variables) as server:
        server.answer(call(1, "search_tools", query="merge pdf files"))
        asked = len(counted.requests("query"))
        counted.fault.write_text("hang")
        server.send(call("given up", "search_tools", query="open an issue"))
        deadline = time.monotonic() + PATIENCE
        while len(counted.requests("query")) == asked:
            assert time.monotonic() < deadline
            time.sleep(0.005)

        server.send(cancel, call(2, "search_tools", query="merge pdf files"))
        assert server.answers_before(2) == []

        counted.fault.unlink()
        # The cancelled query is embedded together with the first of these.
        server.send(call(3, "search_tools", query="open an issue"))
        assert server.answers_before(3) == []
        server.send(call(4, "search_tools", query="close an issue"))
        assert server.answers_before(4) == []


def test_five_hundred_calls_are_answered_even_if_their_answers_are_read_late(piped):
    with piped() as server:
        numbers = range(500)
        for number in numbers:
            server.send(call(number, "search_tools", query=f"merge pdf files {number}", limit=1))

        answers = [server.receive() for _ in numbers]

        assert sorted(answer["id"] for answer in answers) == list(numbers)
        assert not any(answer["result"]["isError"] for answer in answers)


@pytest.mark.parametrize("calls", [1, 64], ids=["one call", "64 calls"])
def test_a_client_that_exits_during_calls_ends_the_server(piped, calls):
    with piped() as server:
        for number in range(calls):
            server.send(call(number, "search_tools", query=f"merge pdf files {number}"))
        server.process.stdin.close()

        rest = server.process.stdout.read()

        assert server.process.wait(PATIENCE) == 0
        assert all(json.loads(line)["jsonrpc"] == "2.0" for line in rest.splitlines())


def test_a_client_that_stops_reading_ends_the_server(piped):
    with piped() as server:
        server.process.stdout.close()
        # The server may end at its first answer, before it has read the other calls.
        with suppress(BrokenPipeError):
            for number in range(10):
                server.send(call(number, "search_tools", query=f"merge pdf files {number}"))
        with suppress(BrokenPipeError):
            server.process.stdin.close()

        assert server.process.wait(PATIENCE) in (0, 1)
        assert b"Traceback" not in server.process.stderr.read()


def test_a_docstring_can_neither_end_a_line_nor_control_a_terminal(piped, tree):
    tool = tree / "mcptools" / "zoo" / "feed.py"
    tool.parent.mkdir()
    tool.write_text(f"def run(food: str = {HOSTILE!r}) -> str:\n    {HOSTILE!r}\n")
    with piped() as server:
        found = server.answer(call(1, "search_tools", query="feed penguins", limit=1))["result"]
        described = server.answer(call(2, "describe_tool", id="zoo.feed", detail="full"))["result"]

        (tool,) = found["structuredContent"]["result"]
        assert tool["id"] == "mcptools:zoo:feed"
        assert tool["description"].startswith("Feed  [31mred [0m penguins")
        for result in (found, described):
            (block,) = result["content"]
            assert block["text"].isprintable()
            assert json.loads(block["text"])["description"] == tool["description"]


def test_a_single_category_is_in_the_singular(piped, tree, write_tools):
    write_tools(tree, "zoo", 2, "Feed the penguins.")
    with piped("--include", "mcptools:zoo:*") as server:
        server.answer(call(1, "search_tools", query="feed the penguins"))
        tools = server.answer({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})["result"]

        assert "Indexed: 2 in 1 category: zoo." in tools["tools"][0]["description"]


def test_a_category_name_in_a_definition_cannot_control_a_terminal(piped, tree):
    for name in ("zoo\x1b[31m", "b\u202eidi", "a\nb", "x" * 200):
        tool = tree / "mcptools" / name / "feed.py"
        try:
            tool.parent.mkdir()
        except OSError:
            pytest.skip("this file system does not allow such names")
        tool.write_text("def run() -> str:\n    'Feed the penguins.'\n")
    with piped() as server:
        # The categories are not listed before they are indexed.
        server.answer(call(1, "search_tools", query="feed the penguins"))
        tools = server.answer({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})["result"]

        description = tools["tools"][0]["description"]
        assert "Indexed: " in description
        assert description.isprintable()
        assert "x" * 41 not in description
