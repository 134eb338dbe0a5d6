"""Servers over one tree and one index, which are used, killed and restarted."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from queue import Empty, Queue
from typing import Any

# The maximum seconds to wait for anything, many times what a busy machine needs.
PATIENCE = 600.0
_INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "soak", "version": "1"},
}


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Wait until a condition is true.

    Raises:
        AssertionError: It is not true in time.
    """
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until, f"timed out waiting for: {what}"
        time.sleep(0.05)


class StdioServer:
    """A stdio server, with one request at a time."""

    def __init__(self, command: list[str], log: Path, **variables: str) -> None:
        self._number = 0
        self._lines: Queue[str] = Queue()
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [*command, "serve"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=os.environ | variables,
                text=True,
            )
        threading.Thread(target=self._read, daemon=True).start()
        self.ask("initialize", _INITIALIZE)
        self._send('{"jsonrpc": "2.0", "method": "notifications/initialized"}')

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request, and return the answer."""
        self._number += 1
        asked = {"method": method, "params": params, "jsonrpc": "2.0", "id": self._number}
        self._send(json.dumps(asked))
        return self._answer(self._number)

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """Call a tool, and return the answer."""
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def found(self, query: str, **arguments: object) -> dict[str, str]:
        """Search for fifty tools, and return their descriptions by id."""
        result = self.search(query, **arguments).get("structuredContent", {"result": []})
        return {tool["id"]: tool["description"] for tool in result["result"]}

    def search(self, query: str, **arguments: object) -> dict[str, Any]:
        """Search for fifty tools, and return the whole result."""
        arguments = {"query": query, "limit": 50} | arguments
        return self.call("search_tools", **arguments)["result"]

    def has_all(self, tools: int | None = None) -> bool:
        """Return whether there are this many tools, all of whose vectors are searched."""
        meta = self.search("tool").get("_meta", {})
        coverage = meta.get("pytools/coverage", {"tools": -1, "vectors": 0})
        wanted = coverage["tools"] if tools is None else tools
        return coverage["tools"] == coverage["vectors"] == wanted and not meta["pytools/lost"]

    def says(self, words: str, query: str = "tool") -> bool:
        """Return whether an answer contains some words, in a note or as an error."""
        return words in json.dumps(self.search(query))

    def kill(self) -> None:
        """Kill the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)

    def _answer(self, number: int) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE
        while True:
            try:
                message = json.loads(self._lines.get(timeout=max(until - time.monotonic(), 0)))
            except Empty:
                raise AssertionError(f"request {number} was never answered") from None
            if message.get("id") == number:
                return message


class HttpServer:
    """A server over HTTP with a token."""

    _TOKEN = "soak-token"

    def __init__(self, command: list[str], log: Path) -> None:
        self._said = log.with_name("http.log")
        with self._said.open("wb") as stderr:
            self._process = subprocess.Popen(
                [*command, "serve", "--transport", "http", "--port", "0"],
                stdin=subprocess.DEVNULL,
                stderr=stderr,
                env=os.environ | {"PYTOOLS_TOKEN": self._TOKEN},
            )
        until = time.monotonic() + PATIENCE
        while not (found := re.search(r"serving on (\S+) ", said := self._said.read_text())):
            assert time.monotonic() < until, said
            assert self._process.poll() is None, said
            time.sleep(0.05)
        self._url = found[1]

    def status_of(self, query: str) -> int:
        """Search, and return the status of the answer."""
        path = f"/search?{urllib.parse.urlencode({'q': query}, errors='replace')}"
        headers = {"Authorization": f"Bearer {self._TOKEN}"}
        request = urllib.request.Request(self._url + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def kill(self) -> None:
        """Kill the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
