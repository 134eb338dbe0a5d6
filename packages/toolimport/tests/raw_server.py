"""An MCP server over stdio or HTTP that answers calls with given text instead of valid results.

usage: python raw_server.py PLAN.json, with the text of each tool's result, and `schemas` of some
"""

from __future__ import annotations

import gzip
import json
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


def answer_to(plan: dict, message: dict) -> str:
    """Return the line that answers a request, which need not be valid JSON."""
    result = json.dumps({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}})
    result = result[:-1] + ', "serverInfo": {"name": "raw", "version": "1"}}'
    match message["method"]:
        case "tools/list":
            schemas = plan.get("schemas", {})
            tools = [
                {"name": name, "description": name, "inputSchema": {"type": "object"}}
                | ({"outputSchema": schemas[name]} if name in schemas else {})
                for name in plan["results"]
            ]
            result = json.dumps({"tools": tools})
        case "tools/call":
            result = plan["results"][message["params"]["name"]]
            if result.startswith("instead "):
                return result.removeprefix("instead ").replace("@", str(message["id"]))
        case method if method != "initialize":
            error = {"code": -32601, "message": f"no {method}"}
            return json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error})
    return f'{{"jsonrpc": "2.0", "id": {json.dumps(message["id"])}, "result": {result}}}'


@contextmanager
def listening(answer: Callable[[dict], str], kind: str) -> Generator[dict]:
    """Serve answers over HTTP with a content type, and yield the server's definition."""

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if "id" not in message:
                self._send(202, b"")
                return
            text = answer(message)
            if kind == "text/event-stream":
                # A blank line ends an event; the first one has no data.
                lines = "".join(f"data: {it}\n" if it else "\n" for it in text.split("\n"))
                text = f"id: 1\ndata:\n\n{lines}\n"
            body = text.encode("utf-8", "surrogateescape")
            match text:
                case "cut off":
                    self._send(200, body, {"Content-Length": "99"})
                    self.close_connection = True
                case "not gzip":
                    self._send(200, body, {"Content-Encoding": "gzip"})
                case _ if kind == "gzip":
                    headers = {"Content-Type": "application/json; charset=utf-8"}
                    body = gzip.compress(body)
                    self._send(200, body, headers | {"Content-Encoding": "gzip"})
                case _:
                    self._send(200, body)

        def do_GET(self) -> None:
            self._send(405, b"")

        def _send(self, status: int, body: bytes, more: dict[str, str] | None = None) -> None:
            self.send_response(status)
            headers = {"Content-Type": kind, "Content-Length": str(len(body))} | (more or {})
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield {"type": "http", "url": f"http://127.0.0.1:{server.server_port}/mcp"}
        finally:
            server.shutdown()
            thread.join()


def main() -> None:
    """Serve over stdio."""
    plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            text = answer_to(plan, message) + "\n"
            sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
