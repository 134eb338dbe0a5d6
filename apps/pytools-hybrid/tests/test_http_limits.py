"""What a server does with large and slow bodies, unforeseen errors, and requests that are cut."""

import asyncio
import gc
import logging
import socket
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from pytools_hybrid import ToolSearch
from pytools_hybrid.errors import IndexNotReadyError, PytoolsError, RootUnreadableError
from pytools_hybrid.index import Follower
from pytools_hybrid.serve.http import serve_http
from pytools_hybrid.serve.mcp import create_server

from .conftest import serving

pytestmark = pytest.mark.anyio

OUTCOMES = "/api/v1/outcomes"
JSON = {"content-type": "application/json"}


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def serve(settings, toolbox):
    return lambda: serving(settings(watch=False, embedding_model="none"), toolbox)


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
async def test_our_errors_become_problems_with_their_message(
    serve, monkeypatch, error, status, wait
):
    async def fail(*_args, **_options):
        raise error

    async with serve() as client:
        monkeypatch.setattr(ToolSearch, "search", fail)
        answer = await client.get("/search?q=pdf")

    assert (answer.status_code, answer.headers.get("retry-after")) == (status, wait)
    assert (str(error) in answer.json()["detail"]) is (status != 500)


async def parts(*texts):
    for text in texts:
        yield text


async def test_a_body_in_parts_is_joined(serve):
    async with serve() as client:
        body = parts(b'{"tool_id": "merge', b'_pdfs", "success"', b": true}")
        answer = await client.post(OUTCOMES, content=body, headers=JSON)

    assert answer.status_code == 201


@pytest.mark.parametrize(("path", "is_refused"), [(OUTCOMES, True), ("/mcp", False)])
async def test_each_path_has_its_own_size_limit(serve, path, is_refused):
    async with serve() as client:
        answer = await client.post(path, content=b"x" * 70_000, headers=JSON)

    assert (answer.status_code == 413) is is_refused


async def test_only_the_start_of_a_huge_body_is_read(serve):
    sent = 0

    async def endless():
        nonlocal sent
        while sent < 100:
            sent += 1
            yield b"x" * 1024 * 1024

    async with serve() as client:
        answer = await client.post(OUTCOMES, content=endless(), headers=JSON)

    assert answer.status_code == 413
    assert answer.headers["connection"] == "close"
    assert sent < 10


async def test_a_body_that_does_not_arrive_times_out(serve, monkeypatch):
    monkeypatch.setattr("pytools_hybrid.serve.http._app._BODY_SECONDS", 0.01)

    async def stuck():
        yield b"{"
        await asyncio.Event().wait()

    async with serve() as client:
        answer = await client.post(OUTCOMES, content=stuck(), headers=JSON)

    assert answer.status_code == 408


async def test_a_request_that_is_cut_off_as_the_server_stops_is_told_to_try_again(
    serve, monkeypatch, counted
):
    begun = asyncio.Event()

    async def wait(*_args, **_options):
        begun.set()
        await asyncio.Event().wait()

    async with serve() as client:
        monkeypatch.setattr(ToolSearch, "search", wait)
        request = asyncio.create_task(client.get("/search?q=pdf"))
        await begun.wait()
        request.cancel()
        answer = await request

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert counted()["pytools_http_requests_total(GET, /search, 503)"] == 1


async def test_answers_are_sent_without_waiting_for_the_client_to_acknowledge_their_beginning(
    settings, toolbox
):
    made = settings(watch=False, embedding_model="none", port=0)
    before = logging.getLogger("uvicorn.error").level
    address = asyncio.get_running_loop().create_future()
    async with ToolSearch(toolbox, made) as search:
        follower = Follower(search.index)
        server = create_server(search, follower, settings=made, root=toolbox)
        serving = asyncio.create_task(
            serve_http(search, follower, made, server, invite=address.set_result)
        )
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", urlsplit(await address).port, limit=1 << 20
        )
        writer.write(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b" 200 " in await reader.readline()
        client = writer.get_extra_info("sockname")
        ends = [it for it in gc.get_objects() if type(it) is socket.socket and it.fileno() >= 0]
        (end,) = [it for it in ends if _peer(it) == client]

        assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

        writer.close()
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving

    # The process is as it was before it served.
    assert logging.getLogger("uvicorn.error").level == before


def _peer(end):
    with suppress(OSError):
        return end.getpeername()
