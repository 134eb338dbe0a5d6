"""How much a server takes on at once, and how long it waits for slow clients."""

import asyncio
import socket

import pytest
import uvicorn
from pytools_hybrid.http import _connections, _limits
from pytools_hybrid.http._connections import ImpatientProtocol
from pytools_hybrid.http._ending import AnswerWhenCut
from pytools_hybrid.http._limits import BodyLimit, Slots
from pytools_hybrid.http._problems import ProblemError

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def test_so_many_work_so_many_wait_and_others_come_again():
    slots, done, working, most = Slots(at_work=2, waiting=3), asyncio.Event(), 0, 0

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


async def test_a_slot_is_free_again_after_a_failure_and_after_a_cancellation():
    slots = Slots(at_work=1, waiting=0)

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


def post(path="/", **headers):
    given = [(name.encode().replace(b"_", b"-"), value) for name, value in headers.items()]
    return {"type": "http", "method": "POST", "path": path, "headers": given}


class Client:
    """Sends messages and keeps the answer.

    Attributes:
        status: That of the answer.
        taken: How many messages were asked for.
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
    await send({"type": "http.response.start", "status": 200, "headers": []})


async def test_a_body_in_parts_comes_whole():
    client = Client(part(b"ab", more=True), part(b"cd", more=False))
    scope = post(transfer_encoding=b"chunked")

    await BodyLimit(echo, largest=4, of_paths={})(scope, client.receive, client.send)

    assert (client.status, scope["body"]) == (200, b"abcd")


@pytest.mark.parametrize(("path", "status"), [("/", 413), ("/large", 200)])
async def test_each_path_has_its_limit(path, status):
    client = Client(part(b"abc", more=True), part(b"de", more=False))

    limited = BodyLimit(echo, largest=4, of_paths={"/large": 5})
    await limited(post(path, content_length=b"5"), client.receive, client.send)

    assert client.status == status


async def test_of_a_flood_only_so_much_is_read():
    client = Client(*[part(b"x" * 1024 * 1024, more=True)] * 100)

    await BodyLimit(echo, largest=4, of_paths={})(
        post(content_length=b"104857600"), client.receive, client.send
    )

    assert client.status == 413
    assert client.taken < 10


async def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(_limits, "_BODY_SECONDS", 0.01)
    client = Client(part(b"a", more=True))

    await BodyLimit(echo, largest=4, of_paths={})(
        post(content_length=b"3"), client.receive, client.send
    )

    assert client.status == 408


async def test_a_client_that_goes_in_the_middle_of_its_body_is_let_go():
    client = Client(part(b"a", more=True), {"type": "http.disconnect"})
    scope = post(content_length=b"3")

    await BodyLimit(echo, largest=4, of_paths={})(scope, client.receive, client.send)

    assert scope["body"] is None


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: "])
@pytest.mark.parametrize("before", [b"", b"GET /first HTTP/1.1\r\nHost: a\r\n\r\n"])
async def test_headers_that_do_not_come_end_the_connection(monkeypatch, before, sent):
    monkeypatch.setattr(_connections, "_HEADERS_SECONDS", 0.05)
    config = uvicorn.Config(
        echo, http=ImpatientProtocol, lifespan="off", log_config=None, timeout_keep_alive=1
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        port = listener.getsockname()[1]
        config.load()
        server.lifespan = config.lifespan_class(config)
        await server.startup([listener])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(before + sent)
        async with asyncio.timeout(30):
            received = await reader.read()
        writer.close()
        await writer.wait_closed()
        await server.shutdown([listener])

    assert received.startswith(b"HTTP/1.1 200") if before else received == b""


async def test_a_request_that_is_cut_is_told_to_come_again():
    waiting = asyncio.Event()

    async def wait(_scope, _receive, _send):
        waiting.set()
        await asyncio.Event().wait()

    client = Client()
    app = AnswerWhenCut(wait)
    task = asyncio.create_task(app(post(), client.receive, client.send))
    await waiting.wait()
    task.cancel()
    await task

    assert client.status == 503
