"""An OpenAI-compatible endpoint for embeddings, on loopback, that can be made to fail."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The endpoint's answer to one request.

    Attributes:
        rows: The vectors, in order, or any other values in place of vectors.
        status: The HTTP status; other than 200, an error is sent instead of vectors.
        headers: Further headers, such as Retry-After.
        indexes: The `index` of each row; None for 0, 1, 2, …
    """

    rows: Sequence[Any] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    indexes: Sequence[int] | None = None


class OpenAIStub:
    """The endpoint. Attributes may be changed while it runs.

    Attributes:
        address: Its base URL.
        dimensions: The length of its vectors, each of which is a bag of words.
        respond: Answers a request for some texts, by default with `healthy`. It may block, because
            each request has its own thread.
        requests: The texts of each request, in the order of arrival.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.dimensions = 37
        self.requests: list[list[str]] = []
        self.respond: Callable[[list[str]], Reply] = self.healthy

    def healthy(self, texts: Sequence[str]) -> Reply:
        """Answer like a provider that works."""
        return Reply(rows=[self.vector(text) for text in texts])

    def vector(self, text: str) -> list[float]:
        """Return the vector of a text."""
        vector = [0.001] * self.dimensions
        for word in re.findall("[a-z]+", text.lower()):
            digest = hashlib.sha256(word.encode()).digest()
            vector[int.from_bytes(digest[:4], "big") % self.dimensions] += 1.0
        return vector

    @property
    def texts(self) -> list[str]:
        """The texts of all requests."""
        return [text for request in self.requests for text in request]


class _Server(ThreadingHTTPServer):
    """A server with room for connections that a busy machine has yet to accept."""

    request_queue_size = 128


@contextmanager
def openai_stub() -> Iterator[OpenAIStub]:
    """Run an endpoint."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            texts = json.loads(self.rfile.read(length))["input"]
            texts = [texts] if isinstance(texts, str) else texts
            stub.requests.append(texts)
            self._send(stub.respond(texts))

        def _send(self, reply: Reply) -> None:
            indexes = range(len(reply.rows)) if reply.indexes is None else reply.indexes
            answer: dict[str, Any] = {
                "object": "list",
                "model": "stub",
                "usage": {"prompt_tokens": 1, "total_tokens": 1},
                "data": [
                    {"object": "embedding", "index": index, "embedding": row}
                    for index, row in zip(indexes, reply.rows, strict=True)
                ],
            }
            if reply.status != 200:
                answer = {"error": {"message": f"status {reply.status}", "type": "stub"}}
            body = json.dumps(answer).encode()
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            # The client may have given up.
            with suppress(OSError):
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with _Server(("127.0.0.1", 0), Handler) as server:
        # A test may end while a reply is still blocked.
        server.daemon_threads = True
        server.block_on_close = False
        stub = OpenAIStub(f"http://127.0.0.1:{server.server_port}/v1")
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield stub
        finally:
            server.shutdown()
