"""Limits on concurrent searches, bodies and connections, and on waiting for slow clients."""

import asyncio
import logging
import socket
import sys
from contextlib import asynccontextmanager
from functools import partial

import httpx2
import pytest
import uvicorn
from pytools_hybrid import Follower, ToolSearch
from pytools_hybrid.errors import IndexNotReadyError, PytoolsError, RootUnreadableError
from pytools_hybrid.serve.http import _limits, _run
from pytools_hybrid.serve.http._access import IS_ANONYMOUS, AccessMiddleware, HostRule
from pytools_hybrid.serve.http._api import SearchEndpoints, add_operations, create_api
from pytools_hybrid.serve.http._connections import LimitedProtocol
from pytools_hybrid.serve.http._limits import BodyLimit, SearchLimit
from pytools_hybrid.serve.http._metrics import CountRequests
from pytools_hybrid.serve.http._problems import ProblemError, exception_handlers
from pytools_hybrid.serve.operations import Service
from starlette.applications import Starlette
from starlette.routing import Route

from .conftest import PATIENCE

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def test_slots_limit_running_and_waiting_searches_and_refuse_others():
    slots, done, working, most = SearchLimit(at_work=2, waiting=3), asyncio.Event(), 0, 0

    async def work():
        nonlocal working, most
        async with slots.taken():
            working += 1
            most = max(most, working)
            await done.wait()
            working -= 1

    tasks = [asyncio.create_task(work()) for _ in range(6)]
    finished, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    done.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)

    assert len(finished) == 1
    (refused,) = [result for result in results if result is not None]
    assert isinstance(refused, ProblemError)
    assert (refused.status, refused.headers) == (503, {"Retry-After": "1"})
    assert most == 2


async def test_a_failed_or_cancelled_search_frees_its_slot():
    slots = SearchLimit(at_work=1, waiting=0)

    async def fail():
        async with slots.taken():
            raise RuntimeError

    async def never():
        async with slots.taken():
            await asyncio.Event().wait()

    for _ in range(3):
        with pytest.raises(RuntimeError):
            await fail()
        waiting = asyncio.create_task(never())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})


def application(*routes):
    handlers = exception_handlers()
    return Starlette(routes=[Route(*route) for route in routes], exception_handlers=handlers)


def asking(app):
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1")


@pytest.mark.parametrize("path", ["/search?q=pdf", "/api/v1/tools/search?query=pdf"])
async def test_searches_that_wait_for_the_index_keep_their_slots(settings, toolbox, path):
    made = settings(watch=False, embedding_model="none")
    async with ToolSearch(toolbox, made, refresh=False) as search:
        # The follower is never started, so all searches wait for the index.
        follower = Follower(search.index)
        app = create_api(exception_handlers=exception_handlers())
        slots = SearchLimit(at_work=1, waiting=1)
        add_operations(app, SearchEndpoints(Service(search, follower), slots))
        async with asking(app) as client:
            calls = {asyncio.create_task(client.get(path)) for _ in range(3)}
            done, waiting = await asyncio.wait(
                calls, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED
            )
            for call in waiting:
                call.cancel()
            await asyncio.wait(calls)

    assert [call.result().status_code for call in done] == [503]


class UnforeseenError(PytoolsError):
    """An error without a handler of its own."""


@pytest.mark.parametrize(
    ("error", "status", "wait"),
    [
        (UnforeseenError("wash it first"), 409, None),
        (RootUnreadableError("tools", "no permission."), 409, None),
        (IndexNotReadyError(), 503, "5"),
        (RuntimeError("secret"), 500, None),
    ],
    ids=["any error of ours", "the root", "not open", "any other error"],
)
async def test_our_errors_become_problems_with_their_message(error, status, wait):
    async def fail(_request):
        raise error

    async with asking(application(("/", fail))) as client:
        answer = await client.get("/")

    assert (answer.status_code, answer.headers.get("retry-after")) == (status, wait)
    assert (str(error) in answer.json()["detail"]) is (status != 500)


def post(path="/", **headers):
    given = [(name.encode().replace(b"_", b"-"), value) for name, value in headers.items()]
    return {"type": "http", "method": "POST", "path": path, "headers": given}


class Client:
    """Sends messages, and keeps the status of the answer.

    Attributes:
        status: The status of the answer.
        taken: How many messages were received by the server.
    """

    def __init__(self, *messages):
        self._messages = list(messages)
        self.status = None
        self.taken = 0

    async def receive(self):
        self.taken += 1
        if not self._messages:
            await asyncio.Event().wait()
        return self._messages.pop(0)

    async def send(self, message):
        if message["type"] == "http.response.start":
            self.status = message["status"]


def part(body, *, more):
    return {"type": "http.request", "body": body, "more_body": more}


async def echo(scope, receive, send):
    message = await receive()
    assert message.get("more_body", False) is False
    scope["body"] = message.get("body")
    headers = [(b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body"})


async def refuse(_scope, _receive, send):
    headers = [(b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body"})


async def test_a_body_in_parts_is_joined():
    client = Client(part(b"ab", more=True), part(b"cd", more=False))
    scope = post(transfer_encoding=b"chunked")

    await BodyLimit(echo, largest=4, of_paths={})(scope, client.receive, client.send)

    assert (client.status, scope["body"]) == (200, b"abcd")


@pytest.mark.parametrize(("path", "status"), [("/", 413), ("/large", 200)])
async def test_each_path_has_its_own_size_limit(path, status):
    client = Client(part(b"abc", more=True), part(b"de", more=False))

    limited = BodyLimit(echo, largest=4, of_paths={"/large": 5})
    await limited(post(path, content_length=b"5"), client.receive, client.send)

    assert client.status == status


async def test_only_the_start_of_a_huge_body_is_read():
    client = Client(*[part(b"x" * 1024 * 1024, more=True)] * 100)

    await BodyLimit(echo, largest=4, of_paths={})(
        post(content_length=b"104857600"), client.receive, client.send
    )

    assert client.status == 413
    assert client.taken < 10


async def test_a_body_that_does_not_arrive_times_out(monkeypatch):
    monkeypatch.setattr(_limits, "_BODY_SECONDS", 0.01)
    client = Client(part(b"a", more=True))

    await BodyLimit(echo, largest=4, of_paths={})(
        post(content_length=b"3"), client.receive, client.send
    )

    assert client.status == 408


async def test_a_client_that_disconnects_during_its_body_is_counted(counted):
    async def never(*_):
        pytest.fail("the request is incomplete")

    client = Client(part(b"a", more=True), {"type": "http.disconnect"})
    limited = BodyLimit(never, largest=4, of_paths={})

    await CountRequests(limited)(post(content_length=b"3"), client.receive, client.send)

    assert client.status is None
    assert counted()["pytools_http_requests_total(POST, none, 499)"] == 1


async def test_a_request_that_is_cut_off_as_the_server_stops_is_told_to_try_again(counted):
    has_begun = asyncio.Event()

    async def wait(_scope, _receive, _send):
        has_begun.set()
        await asyncio.Event().wait()

    client = Client()
    request = asyncio.create_task(CountRequests(wait)(post(), client.receive, client.send))
    await has_begun.wait()
    request.cancel()
    await asyncio.wait({request})

    assert client.status == 503
    assert counted()["pytools_http_requests_total(POST, none, 503)"] == 1


@asynccontextmanager
async def serving(app, most=1000):
    """Serve an application with our protocol, and yield the address."""
    http = partial(LimitedProtocol, others={}, most=most)
    config = uvicorn.Config(app, http=http, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        config.load()
        server.lifespan = config.lifespan_class(config)
        await server.startup([listener])
        yield listener.getsockname()
        await server.shutdown([listener])


async def exchange(address, *sent):
    """Send parts, each after receiving data for the last one, and read to the end."""
    reader, writer = await asyncio.open_connection(*address)
    received = b""
    async with asyncio.timeout(PATIENCE):
        for number, each in enumerate(sent):
            if number:
                received += await reader.read(65536)
            writer.write(each)
        received += await reader.read()
    writer.close()
    await writer.wait_closed()
    return received


CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /\x00 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: few\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
        CHUNKED + b"zz\r\n",
    ],
)
async def test_an_invalid_http_request_is_refused_once(caplog, sent):
    async with serving(BodyLimit(echo, largest=4, of_paths={})) as address:
        head, _, _ = (await exchange(address, sent)).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close" in head.lower()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("method", [b"POST", b"HEAD"])
async def test_an_invalid_body_after_the_answer_ends_the_connection(caplog, method):
    async with serving(refuse) as address:
        received = await exchange(address, CHUNKED.replace(b"POST", method), b"zz\r\n")

    assert received.startswith(b"HTTP/1.1 401")
    assert received.count(b"HTTP/1.1") == 1
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_refusing_a_request_without_reading_its_body_ends_the_connection():
    async with serving(guarded(echo)) as address:
        received = await exchange(address, CHUNKED.replace(b"Host: a", b"Host: localhost"))

    assert received.startswith(b"HTTP/1.1 401")
    assert b"connection: close" in received.lower()


TOKEN = "secret"
ASKED = f"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
LAST = ASKED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


def guarded(app):
    return AccessMiddleware(app, hosts=HostRule("127.0.0.1", ()), token=TOKEN)


async def test_a_new_connection_replaces_the_oldest_one_without_an_accepted_request():
    async with serving(guarded(echo), most=3) as address:
        known = await asyncio.open_connection(*address)
        known[1].write(ASKED)
        await known[0].read(65536)
        silent = [await asyncio.open_connection(*address) for _ in range(2)]
        wrong = ASKED.replace(b"GET /", b"GET /health").replace(b"Authorization", b"X-Other")
        silent[0][1].write(wrong)
        await silent[0][0].read(65536)

        answer = await exchange(address, LAST)

        assert answer.startswith(b"HTTP/1.1 200")
        assert await silent[0][0].read() == b"", "the oldest is closed"
        known[1].write(LAST)
        assert (await known[0].read()).startswith(b"HTTP/1.1 200"), "an accepted one is kept"
        silent[1][1].write(LAST)
        assert (await silent[1][0].read()).startswith(b"HTTP/1.1 200"), "a newer one is kept"
        for _, writer in (known, *silent):
            writer.close()


async def test_a_new_connection_replaces_the_longest_stream_when_all_have_an_accepted_request():
    done = asyncio.Event()

    async def stream(scope, receive, send):
        if scope["path"] != "/stream":
            await echo(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        await done.wait()

    async with serving(guarded(stream), most=3) as address:
        idle, *streams = [await asyncio.open_connection(*address) for _ in range(3)]
        idle[1].write(ASKED)
        await idle[0].read(65536)
        for reader, writer in streams:
            writer.write(ASKED.replace(b"GET /", b"GET /stream"))
            await reader.readuntil(b"begun")
        idle[1].write(ASKED)
        await idle[0].read(65536)

        answer = await exchange(address, LAST)

        assert answer.startswith(b"HTTP/1.1 200")
        with pytest.raises(asyncio.IncompleteReadError):
            await streams[0][0].readuntil(b"0\r\n\r\n")
        idle[1].write(LAST)
        assert (await idle[0].read()).startswith(b"HTTP/1.1 200"), "a later request keeps its own"
        done.set()
        for _, writer in (idle, *streams):
            writer.close()


async def test_requests_without_the_token_start_one_at_a_time_and_delay_no_others():
    """However many connections ask, a request with the token is not behind all of them."""
    started = answered = 0

    class Pages:
        def owns(self, path):
            return path == "/"

        def is_logged_in(self, _scope):
            return False

    async def work(scope, receive, send):
        nonlocal started
        if IS_ANONYMOUS in scope:
            started += 1
        else:
            for _ in range(10):
                await asyncio.sleep(0)
        await echo(scope, receive, send)

    async def ask(path, **headers):
        nonlocal answered
        client = Client(part(b"", more=False))
        await gate(post(path, host=b"localhost", **headers), client.receive, client.send)
        answered += client.status == 401
        return client.status

    gate = AccessMiddleware(work, hosts=HostRule("127.0.0.1", ()), token=TOKEN, console=Pages())
    strangers = [asyncio.create_task(ask(path)) for path in ("/", "/search") for _ in range(300)]
    await asyncio.sleep(0)
    known = await ask("/search", authorization=b"Bearer secret")
    by_then = started + answered
    await asyncio.gather(*strangers)

    assert known == 200
    assert by_then < 20
    assert (started, answered) == (300, 300)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
@pytest.mark.parametrize(
    ("files", "connections"), [(256, 96), (1024, 864), (1_048_576, 1000), (64, 16)]
)
def test_the_limit_of_open_files_limits_connections(monkeypatch, files, connections):
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))

    assert _run._most_connections() == connections
