"""What a server does with large and slow bodies, unforeseen errors, and requests that are cut."""

import asyncio

import pytest
from pytools_hybrid import ToolSearch
from pytools_hybrid.errors import IndexNotReadyError, PytoolsError, RootUnreadableError

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
