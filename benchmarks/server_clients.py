"""Server processes, and minimal clients that search with them.

The clients read and write bytes themselves, to exclude the time of a client library.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPMessage
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlencode, urlsplit

from startup import COMMAND, INITIALIZE

__all__ = ["Api", "Mcp", "Stdio", "cpu_seconds", "environment", "over_http", "over_stdio"]

RESULTS = 5
_INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
_REST_SECONDS = 0.5
_POLL_SECONDS = 0.05
_PATIENCE_SECONDS = 120.0


def environment() -> dict[str, str]:
    """Return a server's environment: it sets only the model, and caches byte code."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONDONTWRITEBYTECODE" and not name.startswith("PYTOOLS_")
    }
    # In a checkout, the default is the accurate model, which embeds in the background for minutes.
    return kept | {"PYTOOLS_EMBEDDING_MODEL": "static"}


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, with a resolution of hundredths of a second."""
    # utime and stime, fields 14 and 15 of stat(5); the name before them may contain spaces.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Stdio:
    """One session over stdio."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.pid = process.pid
        self._to: IO[bytes] = process.stdin
        self._from: IO[bytes] = process.stdout
        self._asked = 1
        self._send(INITIALIZE)
        self._received()
        self._send(_INITIALIZED)

    def search(self, query: str) -> int:
        """Search, and return the number of tools."""
        self._send(_call(self._next(), query))
        return _found(self._received())

    def search_at_once(self, queries: Sequence[str]) -> list[float]:
        """Search for all queries at once, and return the time of each answer; none may fail."""
        numbers = [self._next() for _ in queries]
        started = time.perf_counter()
        calls = zip(numbers, queries, strict=True)
        self._send(*(_call(number, query) for number, query in calls))
        took: dict[int, float] = {}
        while len(took) < len(queries):
            message = self._received()
            _found(message)
            took[message["id"]] = time.perf_counter() - started
        assert sorted(took) == numbers
        return list(took.values())

    def _next(self) -> int:
        self._asked += 1
        return self._asked

    def _send(self, *messages: dict[str, Any]) -> None:
        self._to.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
        self._to.flush()

    def _received(self) -> dict[str, Any]:
        while line := self._from.readline():
            message: dict[str, Any] = json.loads(line)
            if "id" in message:
                return message
        raise SystemExit("the server has ended")


class Mcp:
    """One session of streamable HTTP, on one connection."""

    def __init__(self, url: str) -> None:
        self._connection = HTTPConnection(urlsplit(url).netloc)
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        session, _ = self._post(INITIALIZE)
        self._headers |= {"Mcp-Session-Id": session, "Mcp-Protocol-Version": "2025-06-18"}
        self._post(_INITIALIZED)

    def search(self, query: str) -> int:
        """Search, and return the number of tools."""
        _, text = self._post(_call(2, query))
        data = [line for line in text.splitlines() if line.startswith("data: {")]
        return _found(json.loads(data[-1].removeprefix("data: ") if data else text))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _post(self, message: dict[str, Any]) -> tuple[str, str]:
        answer = _exchange(self._connection, "POST", "/mcp", json.dumps(message), self._headers)
        return answer[0].get("Mcp-Session-Id", ""), answer[1]


class Api:
    """One connection to the JSON API."""

    def __init__(self, url: str) -> None:
        self._connection = HTTPConnection(urlsplit(url).netloc)

    def search(self, query: str) -> int:
        """Search, and return the number of tools."""
        asked = urlencode({"query": query, "limit": RESULTS})
        path = f"/api/v1/tools/search?{asked}"
        return len(json.loads(_exchange(self._connection, "GET", path)[1])["results"])

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _exchange(
    connection: HTTPConnection,
    method: str,
    path: str,
    body: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[HTTPMessage, str]:
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
    except ConnectionError:
        # The server closes idle connections after some seconds.
        connection.close()
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
    text = response.read().decode()
    if response.status >= 300:
        raise SystemExit(f"status {response.status}: {text}")
    return response.headers, text


@contextmanager
def over_stdio(root: Path, database: Path) -> Generator[Stdio]:
    """Start a server for one client, and wait until it is idle."""
    with subprocess.Popen(
        [COMMAND, "serve", "--root", str(root), "--database", str(database)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
    ) as process:
        session = Stdio(process)
        _until_at_rest(process.pid, session.search)
        yield session
        assert process.stdin is not None
        process.stdin.close()


@contextmanager
def over_http(root: Path, database: Path, log: Path) -> Generator[tuple[int, str]]:
    """Start a server at a free port, wait until it is idle, and yield its process and address."""
    command = [COMMAND, "serve", "--root", str(root), "--database", str(database)]
    with log.open("wb") as errors, subprocess.Popen(
        [*command, "--transport", "http", "--port", "0"], stderr=errors, env=environment()
    ) as process:  # fmt: skip
        try:
            while not (said := re.search(r"http://[\d.]+:\d+", log.read_text())):
                if process.poll() is not None:
                    raise SystemExit(f"the server has ended: {log.read_text()}")
                time.sleep(_POLL_SECONDS)
            client = Api(said[0])
            _until_at_rest(process.pid, client.search)
            client.close()
            yield process.pid, said[0]
        finally:
            process.terminate()


def _call(number: int, query: str) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": number,
        "method": "tools/call",
        "params": {"name": "search_tools", "arguments": {"query": query, "limit": RESULTS}},
    }


def _found(message: dict[str, Any]) -> int:
    result = message.get("result")
    if result is None or result.get("isError"):
        raise SystemExit(f"a search has failed: {message}")
    return len(result["structuredContent"]["result"])


def _until_at_rest(pid: int, search: Callable[[str], int]) -> None:
    """Wait for the index, then until the process has used no CPU time for a while."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not search("wait until there is something to find"):
        if time.monotonic() > deadline:
            raise SystemExit("the server finds nothing")
        time.sleep(_POLL_SECONDS)
    before, since = cpu_seconds(pid), time.monotonic()
    while time.monotonic() - since < _REST_SECONDS and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        if (now := cpu_seconds(pid)) != before:
            before, since = now, time.monotonic()
