"""Providers that are called over HTTP, with a server that the test starts."""

import asyncio
import json
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from toolembed import EmbeddingError, FailureKind, create_embedder

pytest.importorskip("tiktoken", reason="the extra openai, which calls them, is not installed")

OLLAMA = "ollama:nomic-embed-text"


class Endpoint(BaseHTTPRequestHandler):
    """An OpenAI-compatible endpoint: each vector contains the length of its text."""

    places = staticmethod(range)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
        places = list(self.places(len(texts)))
        rows = [(place, [len(texts[given]), 1.0, 0.5]) for given, place in enumerate(places)]
        status, answer = 200, {
            "object": "list",
            "model": asked["model"],
            "usage": {"prompt_tokens": 1, "total_tokens": 1},
            "data": [
                {"object": "embedding", "index": place, "embedding": vector}
                for place, vector in rows
            ],
        }  # fmt: skip
        if asked["model"] != "nomic-embed-text":
            status, answer = 404, {"error": {"message": "not found", "type": "api_error"}}
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextmanager
def serving(handler):
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("path", ["", "/", "/v1/"])
def test_ollamas_variable_may_name_the_server_alone(monkeypatch, path):
    with serving(Endpoint) as address:
        monkeypatch.setenv("OLLAMA_BASE_URL", address + path)
        embedder = create_embedder(OLLAMA)

        # No key is needed.
        assert asyncio.run(embedder.embed_query("four")) == [4.0, 1.0, 0.5]
        assert embedder.model_id == OLLAMA


@pytest.mark.parametrize(("name", "word"), [("nothing", "nothing"), ("x; evil", "'x; evil'")])
def test_a_model_missing_from_ollama_is_reported_with_the_pull_command(monkeypatch, name, word):
    expected = pytest.raises(EmbeddingError, match=f"run: ollama pull {word}$")
    with serving(Endpoint) as address, expected as caught:
        monkeypatch.setenv("OLLAMA_BASE_URL", address)
        asyncio.run(create_embedder(f"ollama:{name}").embed_query("four"))

    assert caught.value.kind is FailureKind.UNAVAILABLE


def test_a_stopped_ollama_is_reported_with_the_start_command(monkeypatch):
    # Its port is kept, so that no other program gets it.
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("OLLAMA_BASE_URL", address)
        with pytest.raises(EmbeddingError, match=r"start it \(ollama serve\)") as caught:
            asyncio.run(create_embedder(OLLAMA).embed_query("four"))

    assert caught.value.kind is FailureKind.TRANSIENT
    assert f"does not answer at {address}/v1" in str(caught.value)


@pytest.mark.parametrize(
    ("places", "lengths"),
    [
        (range, [1.0, 2.0, 3.0]),
        # In another order, with the right indexes.
        (lambda count: range(count)[::-1], [3.0, 2.0, 1.0]),
        # All with the same index: the order of the answer is kept.
        (lambda count: [0] * count, [1.0, 2.0, 3.0]),
    ],
)
def test_vectors_are_matched_to_texts_by_index(monkeypatch, places, lengths):
    class Other(Endpoint):
        pass

    Other.places = staticmethod(places)
    with serving(Other) as address:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{address}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        embedder = create_embedder("openai:nomic-embed-text")
        vectors = asyncio.run(embedder.embed_documents(["a", "bb", "ccc"]))

    assert [vector[0] for vector in vectors] == lengths
