"""A provider's stub: all-MiniLM-L6-v2 as published, behind an API like OpenAI's.

usage: PYTHONPATH=benchmarks/quality uv run python benchmarks/quality/provider.py [PORT]

A search then gets its vectors from it:

    OPENAI_BASE_URL=http://127.0.0.1:PORT/v1 OPENAI_API_KEY=stub … --model openai:minilm
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

from toolembed import EmbeddingLimits
from toolembed._transformer import Transformer
from train.base import CACHE, base_weights
from train.quantize import quantized
from train.tensors import write_tensors


class Published:
    """all-MiniLM-L6-v2 in our numpy code, with weights in 8 bits like ours."""

    model_id: str = "published:minilm"
    dimensions: int | None = 384
    limits: EmbeddingLimits = EmbeddingLimits(texts_per_request=16)

    @cached_property
    def _transformer(self) -> Transformer:
        path = CACHE / "published.safetensors"
        if not path.exists():
            write_tensors(path, quantized(base_weights()))
        return Transformer(path.read_bytes())

    async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed documents."""
        return self.encode(texts)

    async def embed_query(self, text: str) -> list[float]:
        """Embed a query."""
        return self.encode([text])[0]

    def encode(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed texts."""
        rows: list[list[float]] = self._transformer.encode(texts).tolist()
        return rows


class Stub(ThreadingHTTPServer):
    """The server."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.model = Published()
        # Load the model now, so that the first request does not wait.
        self.model.encode(["a tool"])
        self.lock = Lock()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Embed the texts of a request."""
        assert isinstance(self.server, Stub)
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
        with self.server.lock:
            rows = self.server.model.encode(texts)
        data = [{"object": "embedding", "index": n, "embedding": row} for n, row in enumerate(rows)]
        usage = {"prompt_tokens": 0, "total_tokens": 0}
        answer = {"object": "list", "model": asked["model"], "data": data, "usage": usage}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing."""


if __name__ == "__main__":
    Stub(int(sys.argv[1]) if sys.argv[1:] else 8797).serve_forever()
