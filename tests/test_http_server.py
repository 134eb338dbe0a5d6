"""The server over HTTP, as a process: access, misbehaving clients, and shutdown."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from .conftest import PATIENCE, PATIENT

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def start(command, tree, tmp_path, environment):
    """Start a server at a free port, and yield its process and address."""

    @contextmanager
    def started(*arguments, host="127.0.0.1", program=(command,), **variables):
        errors = tmp_path / "stderr"
        with (
            errors.open("w") as stderr,
            subprocess.Popen(
                [
                    *(*program, "serve", "--transport", "http", "--host", host, "--port", "0"),
                    *("--root", tree, "--db", tmp_path / "index.db", *arguments),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environment | variables,
            ) as process,
        ):
            try:
                yield process, address(process, errors)
            finally:
                process.kill()
                assert process.stdout.read() == b""

    return started


def address(process, errors, until="serving on "):
    deadline = time.monotonic() + PATIENCE
    while until not in (said := errors.read_text()):
        assert process.poll() is None, said
        assert time.monotonic() < deadline, said
        time.sleep(0.02)
    return said.partition("serving on ")[2].split()[0]


@asynccontextmanager
async def calling(url, token=None):
    headers = {"authorization": f"Bearer {token}"} if token else {}
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(
        base_url=url, headers=headers, timeout=PATIENCE, limits=limits, trust_env=False
    ) as client:
        yield client


@pytest.fixture
def console(command, tree, tmp_path, environment):
    """Run `pytools-hybrid serve --open` until it prints something."""

    @contextmanager
    def started(until, **variables):
        errors = tmp_path / "stderr"
        with (
            errors.open("w") as stderr,
            subprocess.Popen(
                [command, "serve", "--open", "--root", tree, "--db", tmp_path / "index.db"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environment | variables,
            ) as process,
        ):
            try:
                address(process, errors, until)
                yield process, errors
            finally:
                process.kill()
                assert process.stdout.read() == b""

    return started


async def test_the_console_opens_in_a_browser_with_a_single_use_address(console, tmp_path):
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    with console("in your browser", BROWSER=str(browser)) as (process, errors):
        link = opened.read_text().strip()
        url = link.partition("/console/")[0]
        async with calling(url) as client, calling(url) as late:
            strange = await late.get("/console/enter?code=guessed")
            await late.head(link)
            first = await client.get(link, follow_redirects=True)
            again = await client.get(link)
            second = await late.get(link)
            others = [await client.get(path) for path in ("/search?q=a", "/mcp")]
        process.send_signal(signal.SIGINT)
        status = await anyio.to_thread.run_sync(process.wait)

    assert [strange.status_code, second.status_code] == [401, 401]
    assert (first.status_code, first.url.path) == (200, "/")
    assert (again.status_code, again.headers["location"]) == (303, "/")
    assert "has already been used" in second.text
    assert [it.status_code for it in others] == [401, 401]
    assert status == 0
    assert "code=" not in errors.read_text()


async def test_without_a_browser_the_address_of_the_console_is_printed(console):
    for browser in ("/no/such/browser", ""):
        variables = {"DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": browser}
        with console("works once", **variables) as (_, errors):
            link = errors.read_text().partition("open ")[2].split()[0]
            async with calling(link) as client:
                assert (await client.get(link)).status_code == 303


def connection(url):
    host, port = url.removeprefix("http://").rsplit(":", 1)
    return socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE)


def names(answer):
    return [result["id"] for result in answer.json()["results"]]


async def test_the_first_search_finds_tools_and_many_at_once_all_do(start):
    requests = ["open an issue on github", "merge pdf files", "send a message", "what is this"]
    with start() as (_, url):
        async with calling(url) as client:
            first = await client.get("/search", params={"q": requests[0]})
            answers = []

            async def search(number):
                query = f"{requests[number % 4]} {number}"
                answers.append(await client.get("/search", params={"q": query}))

            async with anyio.create_task_group() as tasks:
                for number in range(200):
                    tasks.start_soon(search, number)

    assert "mcptools:github:create_issue" in names(first)
    assert len(answers) == 200
    assert {answer.status_code for answer in answers} == {200}


async def test_an_mcp_client_can_search_describe_and_report(start):
    with start() as (_, url):
        async with Client(f"{url}/mcp") as client:
            result = await client.call_tool("search_tools", {"query": "open an issue on github"})
            found = result.structured_content["result"][0]["id"]
            described = await client.call_tool("describe_tool", {"id": found})
            reported = await client.call_tool("report_outcome", {"tool_id": found, "success": True})
        async with calling(url) as client:
            statistics = (await client.get("/api/v1/stats")).json()

    assert found == "mcptools:github:create_issue"
    assert described.structured_content["id"] == found
    assert not reported.is_error
    assert statistics["tools"][0]["tool_id"] == found


async def test_an_outcome_is_that_of_a_search_in_the_same_session_only(start, run, tree, tmp_path):
    async def search(client):
        found = await client.call_tool("search_tools", {"query": "open an issue on github"})
        return found.meta["pytools/search_id"]

    async def report(client):
        arguments = {"tool_id": "create_issue", "success": True}
        assert not (await client.call_tool("report_outcome", arguments)).is_error

    with start() as (_, url):
        async with (
            Client(f"{url}/mcp", mode="legacy") as one,
            Client(f"{url}/mcp", mode="legacy") as other,
            Client(f"{url}/mcp") as without_session,
        ):
            expected = [await search(one), None, None]
            await search(without_session)
            for client in (one, other, without_session):
                await report(client)

    index = ("--root", tree, "--db", tmp_path / "index.db")
    outcomes = json.loads(run("report", *index, "--export", "outcomes", "--output", "json").stdout)
    assert [it["search_id"] for it in outcomes] == expected


async def test_an_mcp_client_needs_the_token_too_and_no_log_has_it(start, tmp_path):
    with start(PYTOOLS_TOKEN="geheim", PYTOOLS_LOG_LEVEL="DEBUG") as (_, url):
        async with calling(url) as client:
            body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            assert (await client.post("/mcp", json=body)).status_code == 401
            assert (await client.get("/health")).json().keys() == {"status"}
        async with (
            httpx2.AsyncClient(
                headers={"authorization": "Bearer geheim"}, timeout=PATIENCE, trust_env=False
            ) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
        ):
            result = await client.call_tool("search_tools", {"query": "open an issue on github"})

    assert result.structured_content["result"]
    assert "geheim" not in (tmp_path / "stderr").read_text()


def received(client):
    """Return what the server sends until it closes the connection."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(65536):
            parts.append(part)
    return b"".join(parts)


def exchange(url, head, body=b""):
    with connection(url) as client:
        client.sendall(head.replace("\n", "\r\n").encode() + b"\r\n" + body)
        return received(client)


def is_well(url):
    host = url.removeprefix("http://")
    request = f"GET /health HTTP/1.1\nConnection: close\nHost: {host}\n"
    return b" 200 " in exchange(url, request)


def test_an_ipv6_address_works(start):
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    with start(host="::1") as (_, url):
        answer = exchange(url, "GET /health HTTP/1.1\nConnection: close\nHost: [::1]:80\n")

    assert url.startswith("http://[::1]:")
    assert b" 200 " in answer


def test_an_address_that_other_machines_can_reach_needs_a_token(run, tree):
    refused = run("serve", "--root", tree, "--transport", "http", "--host", "0.0.0.0")

    assert refused.returncode == 2
    assert "PYTOOLS_TOKEN" in refused.stderr
    assert refused.stdout == ""


def test_an_address_in_use_is_reported(run, tree):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = run("serve", "--root", tree, "--transport", "http", "--port", str(port))

    assert refused.returncode == 1
    assert str(port) in refused.stderr
    assert "--port 0" in refused.stderr
    assert "Traceback" not in refused.stderr


async def test_clients_that_disconnect_or_never_finish_delay_no_others(start):
    with start() as (_, url), contextlib.ExitStack() as slow:
        host = url.removeprefix("http://")
        head = f"Host: {host}\r\n"
        # Headers and bodies that never end.
        beginnings = [
            f"GET /search?q=a HTTP/1.1\r\n{head}X-Slow: ",
            f"POST /api/v1/outcomes HTTP/1.1\r\n{head}Content-Length: 9\r\n\r\n{{",
            f"POST /mcp HTTP/1.1\r\n{head}Transfer-Encoding: chunked\r\n\r\n5\r\n{{",
        ]
        for number in range(100):
            client = slow.enter_context(connection(url))
            client.sendall(beginnings[number % 3].encode())
        for number in range(100):
            with connection(url) as gone:
                gone.sendall(f"GET /search?q=pdf+{number} HTTP/1.1\r\n{head}\r\n".encode())
        async with calling(url) as client:
            answer = await client.get("/search", params={"q": "merge pdf files"})
            health = await client.get("/health")

    assert names(answer)
    assert health.json()["status"] == "ok"


def test_a_body_that_is_too_large_is_refused_even_without_a_declared_length(start):
    with start() as (_, url):
        host = url.removeprefix("http://")
        for path, size in (("/api/v1/outcomes", 65_537), ("/mcp", 1_048_577)):
            head = f"POST {path} HTTP/1.1\nHost: {host}\nContent-Type: application/json\n"
            told = exchange(url, f"{head}Content-Length: {size}\n", b"x" * size)
            chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (size, b"x" * size)
            untold = exchange(url, f"{head}Transfer-Encoding: chunked\n", chunks)
            for answer in (told, untold):
                line, _, rest = answer.partition(b"\r\n")
                assert b" 413 " in line
                assert b"application/problem+json" in rest

            with connection(url) as endless, contextlib.suppress(ConnectionError):
                endless.sendall(
                    f"{head}Content-Length: 99999999999\n\n".replace("\n", "\r\n").encode()
                )
                for _ in range(1_000):
                    endless.sendall(b"x" * 65_536)
                pytest.fail("65 MB were accepted")
        assert is_well(url)


def test_garbage_is_refused_once_and_the_server_continues(start, tmp_path):
    head = b"POST / HTTP/1.1\r\nHost: a\r\n"
    chunked = b"Transfer-Encoding: chunked\r\n\r\n"
    with start() as (_, url):
        for garbage in (
            b"\x00\xff\x16\x03\x01" * 50,
            b"GET / HTTP/9.9\r\n\r\n",
            b"\r\n" * 500,
            b"A" * 200_000,
        ):
            with connection(url) as client, contextlib.suppress(ConnectionError):
                client.sendall(garbage)
                client.shutdown(socket.SHUT_WR)
                received(client)
            assert is_well(url)
        for request in (
            b"GET /\x00 HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.1\r\n\r\n",
            head + b"Host: b\r\n\r\n",
            head + b"Content-Length: few\r\n\r\n",
            head + b"Transfer-Encoding: gzip\r\n\r\n",
            head.replace(b"Host: a", b"Host: localhost") + chunked + b"zz\r\n",
        ):
            with connection(url) as client:
                client.sendall(request)
                answer = received(client)
            assert answer.startswith(b"HTTP/1.1 400 ")
            assert answer.count(b"HTTP/1.1 ") == 1
            assert b"connection: close" in answer.lower()

    assert len((tmp_path / "stderr").read_text().splitlines()) == 1


@pytest.mark.parametrize("method", ["POST", "HEAD"])
def test_a_refused_request_ends_its_connection_before_its_body(start, tmp_path, method):
    head = f"{method} / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    variables = {"PYTOOLS_CONSOLE": "false", "PYTOOLS_TOKEN": "secret"}
    with start(**variables) as (_, url), connection(url) as client:
        client.sendall(head.encode())
        answer = client.recv(65536)
        with contextlib.suppress(ConnectionError):
            client.sendall(b"zz\r\n")
        answer += received(client)

    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"connection: close" in answer.lower()
    assert answer.count(b"HTTP/1.1") == 1
    assert len((tmp_path / "stderr").read_text().splitlines()) == 1


async def test_invalid_http_is_only_counted(start, tmp_path):
    with start() as (_, url):
        post = f"POST /api/v1/outcomes HTTP/1.1\nHost: {url.removeprefix('http://')}\n"
        body = "Content-Type: application/json\nTransfer-Encoding: chunked\n"
        upgrade = "Connection: upgrade, close\nUpgrade: websocket\n"
        broken = exchange(url, post + body, b"zz\r\n")
        upgraded = exchange(url, post.replace("POST", "GET") + upgrade)
        async with calling(url) as client:
            metrics = (await client.get("/metrics")).text

    for answer, status in ((broken, b" 400 Bad Request\r\n"), (upgraded, b" 405 ")):
        assert status in answer
    assert 'method="POST",route="none",status="499"} 1.0' in metrics
    assert 'status="500"' not in metrics
    assert len((tmp_path / "stderr").read_text().splitlines()) == 1


@pytest.fixture
def many_files():
    """Raise the limit of open files for a test with a thousand connections."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2_048:
        pytest.skip("this system limits open files too much")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2_048, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
@pytest.mark.parametrize(("files", "connections"), [(200, 400), (2_048, 1_100)])
@pytest.mark.usefixtures("many_files")
async def test_slow_connections_without_the_token_do_not_block_others(
    start, tmp_path, files, connections
):
    limited = ("sh", "-c", f'ulimit -n {files} && exec "$0" "$@"', *PATIENT)
    with (
        start(program=limited, PYTOOLS_TOKEN="secret") as (_, url),
        contextlib.ExitStack() as slow,
    ):
        async with calling(url, "secret") as known:
            assert (await known.get("/search", params={"q": "merge pdf files"})).is_success
            flood = [slow.enter_context(connection(url)) for _ in range(connections)]
            for each in flood:
                with contextlib.suppress(OSError):
                    each.send(b"GET /search?q=a HTTP/1.1\r\nX-Slow: ")
            # The oldest is closed only when there is no room for another.
            with contextlib.suppress(ConnectionResetError):
                assert flood[0].recv(1) == b""
            flood[-1].setblocking(False)
            with pytest.raises(BlockingIOError):
                flood[-1].recv(1)
            for number in range(20):
                # Use a separate connection for each, in addition to the existing one.
                async with calling(url, "secret") as new:
                    for client in (new, known):
                        query = {"q": f"merge {number} pdf files"}
                        answer = await client.get("/search", params=query)
                        assert names(answer)

    assert len((tmp_path / "stderr").read_text().splitlines()) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_a_new_connection_replaces_the_one_whose_last_request_is_the_oldest(start):
    # So few that the server keeps 16 connections.
    limited = ("sh", "-c", 'ulimit -n 176 && exec "$0" "$@"', *PATIENT)
    with start(program=limited) as (_, url), contextlib.ExitStack() as stack:
        request = f"GET /health HTTP/1.1\r\nHost: {url.removeprefix('http://')}\r\n\r\n".encode()

        def ask(client):
            client.sendall(request)
            answer = b""
            while part := not answer.endswith(b"}") and client.recv(65536):
                answer += part
            return answer.startswith(b"HTTP/1.1 200")

        first, second, *others = [stack.enter_context(connection(url)) for _ in range(16)]
        for client in (first, second, *others, first):
            assert ask(client)
        assert is_well(url)

        assert received(second) == b""
        assert all(map(ask, (first, *others)))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
def test_after_a_signal_each_request_is_answered_or_its_connection_closed(start, tmp_path):
    with start() as (process, url):
        host = url.removeprefix("http://")
        idle = connection(url)
        half = connection(url)
        half.sendall(b"GET /search")
        clients = [connection(url) for _ in range(20)]
        for number, client in enumerate(clients):
            client.sendall(f"GET /search?q=pdf+{number} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        process.send_signal(signal.SIGTERM)
        status = process.wait(timeout=PATIENCE)
        answers = [received(client) for client in clients]
        for client in (*clients, idle, half):
            client.close()

    assert status == 0
    for answer in answers:
        head, _, body = answer.partition(b"\r\n\r\n")
        if b" 503 " in head:
            assert b"retry-after:" in head.lower()
        if answer:
            assert json.loads(body)["results" if b" 200 " in head else "detail"]
    said = (tmp_path / "stderr").read_text()
    assert "Traceback" not in said
    assert "ERROR" not in said


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
async def test_an_open_stream_does_not_delay_the_shutdown(start, tmp_path):
    headers = {"accept": "application/json, text/event-stream"}
    parameters = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": parameters}
    with start() as (process, url):
        async with calling(url) as client:
            opened = await client.post("/mcp", headers=headers, json=body)
            headers["mcp-session-id"] = opened.headers["mcp-session-id"]
            async with client.stream("GET", "/mcp", headers=headers) as stream:
                process.send_signal(signal.SIGTERM)
                with pytest.raises(httpx2.RemoteProtocolError):
                    await stream.aread()
        status = process.wait(timeout=PATIENCE)

    assert status == 0
    assert "ERROR" not in (tmp_path / "stderr").read_text()


def test_schemathesis_finds_no_errors(start, home):
    program = Path(sys.executable).with_name("schemathesis")
    with start(PYTOOLS_TOKEN="geheim") as (_, url):
        report = subprocess.run(
            [
                *(program, "run", f"{url}/openapi.json", "--header"),
                *("Authorization: Bearer geheim", "--max-examples=2", "--checks=all"),
                *("--no-color", "--seed=1"),
                # On a busy machine, generating data and answering take long.
                *("--suppress-health-check=too_slow", f"--request-timeout={PATIENCE}"),
            ],
            cwd=home,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    assert report.returncode == 0, report.stdout
