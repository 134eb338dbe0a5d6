"""Models of Ollama, called through its OpenAI-compatible endpoint on a test server."""

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pytools_hybrid.installation import install_command
from pytools_hybrid.reports.doctor import Status, checks
from pytools_hybrid.reports.models import model_choices

MODEL = "nomic-embed-text"


class Ollama(BaseHTTPRequestHandler):
    """The part of Ollama that these tests need."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = asked["model"]
        if self.path == "/v1/embeddings" and name == MODEL:
            texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
            data = [
                {"object": "embedding", "index": place, "embedding": [len(text), 1.0, 0.5]}
                for place, text in enumerate(texts)
            ]
            usage = {"prompt_tokens": 1, "total_tokens": 1}
            self.reply(200, {"object": "list", "data": data, "model": name, "usage": usage})
        else:
            message = f'model "{name}" not found, try pulling it first'
            self.reply(404, {"error": {"message": message, "type": "api_error"}})

    def reply(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.delenv("OLLAMA_API_KEY", raising=False)


@pytest.fixture
def ollama(monkeypatch):
    with ThreadingHTTPServer(("127.0.0.1", 0), Ollama) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("OLLAMA_BASE_URL", address)
        yield address
        server.shutdown()


@pytest.fixture
def closed(monkeypatch):
    """An address that refuses connections; it is bound, so that no other server can get it."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{bound.getsockname()[1]}"
        monkeypatch.setenv("OLLAMA_BASE_URL", address)
        yield address


@pytest.fixture
def _asked_by_openai():
    # The extra openai installs openai and tiktoken, but openai alone may be a dependency of others.
    pytest.importorskip("tiktoken", reason="the extra openai, which calls Ollama, is missing")


def of_ollama(**options):
    choices = list(model_choices(**options))
    return {it.setting: it for it in choices if it.setting.startswith("ollama:")}


@pytest.mark.usefixtures("_asked_by_openai")
def test_a_stopped_ollama_is_reported_with_the_command_that_starts_it(closed, settings):
    checked = checks(settings(embedding_model="ollama:nomic-embed-text"))

    (verdict,) = [it.run() for it in checked if it.name == "embedder"]

    assert f"does not answer at {closed}/v1" in verdict.message
    assert (verdict.status, verdict.remedy) == (Status.FAILED, "ollama serve")


@pytest.mark.usefixtures("closed", "_asked_by_openai")
def test_ollama_is_one_of_the_choices_without_a_request():
    (choice,) = of_ollama().values()

    assert choice.works
    assert not choice.was_asked


@pytest.mark.usefixtures("ollama", "_asked_by_openai")
def test_a_model_of_ollama_is_called_if_requested():
    choice = of_ollama(call=True)["ollama:nomic-embed-text"]

    assert choice.works
    assert choice.was_asked
    assert "3 dimensions" in choice.message


@pytest.mark.usefixtures("_asked_by_openai")
def test_a_stopped_ollama_that_is_called_lacks_the_command_that_starts_it(closed):
    choice = of_ollama(call=True)["ollama:nomic-embed-text"]

    assert not choice.works
    assert f"does not answer at {closed}" in choice.message
    assert choice.remedy == "ollama serve"


# Models of other providers


def test_the_offline_model_always_works():
    first = next(model_choices())

    assert (first.setting, first.works, first.was_asked) == ("static", True, True)
    assert "256 dimensions" in first.message


@pytest.mark.usefixtures("closed")
def test_missing_keys_and_packages_of_other_models_are_reported(monkeypatch):
    for name in ("OPENAI_API_KEY", "VOYAGE_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    choices = {choice.setting: choice for choice in model_choices()}

    voyage = choices["voyageai:voyage-4-lite"]
    assert not voyage.works
    assert voyage.remedy == install_command("pytools-hybrid[voyageai]")
    openai = choices["openai:text-embedding-3-small"]
    assert openai.remedy in {
        "export OPENAI_API_KEY=…", install_command("pytools-hybrid[openai]")
    }  # fmt: skip


@pytest.mark.usefixtures("closed", "_asked_by_openai")
def test_a_key_is_reported_by_name_and_its_value_is_never_shown(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")

    choices = {choice.setting: choice for choice in model_choices()}

    choice = choices["openai:text-embedding-3-small"]
    assert choice.works
    assert not choice.was_asked
    assert "OPENAI_API_KEY is set" in choice.message
    assert "very-secret" not in repr(choices)


@pytest.mark.usefixtures("_asked_by_openai")
def test_models_of_providers_are_called_if_requested(ollama, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{ollama}/v1")

    choices = {choice.setting: choice for choice in model_choices(call=True)}

    # The model is called, and this server does not know it.
    choice = choices["openai:text-embedding-3-small"]
    assert choice.was_asked
    assert not choice.works
