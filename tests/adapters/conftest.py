"""Fixtures of the adapters' tests: tools in memory, and a fake provider."""

import json
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from textwrap import dedent

import pytest

from ..conftest import PATIENCE

TOOLS = {
    "merge_pdfs": ("Join several PDF documents into one file.", {"paths": "The documents"}),
    "rotate_pages": ("Turn the pages of a PDF document around.", {"path": "The document"}),
    "create_issue": ("Open a new issue in a repository, to report a bug.", {"title": "One line"}),
    "list_commits": ("Show the history of a branch, newest first.", {"branch": "Its name"}),
    "send_email": ("Send an email with attachments to some addresses.", {"to": "Addresses"}),
    "get_forecast": ("Tell the weather of the next days at a place.", {"place": "A town"}),
    "convert_currency": ("Convert an amount between two currencies.", {"amount": "How much"}),
    "play_song": ("Play a song on a loudspeaker.", {"title": "Of the song"}),
}


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(autouse=True)
def _offline(monkeypatch, home):
    """Isolate tests from settings, keys and caches of this machine."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    # The weights of the accurate model are installed here; no test needs them.
    monkeypatch.setenv("PYTOOLS_EMBEDDING_MODEL", "static")
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    # After these, tools are found by their words alone.
    for limit in ("agents.corpus._EMBEDDING_SECONDS", "index.index._ENTERING_SECONDS"):
        monkeypatch.setattr(f"pytools_hybrid.{limit}", PATIENCE)
    monkeypatch.chdir(home)


@pytest.fixture
def definitions():
    """Names with descriptions and schemas."""
    return {
        name: (
            description,
            {
                "type": "object",
                "properties": {
                    parameter: {"type": "string", "description": meaning}
                    for parameter, meaning in parameters.items()
                },
                "required": list(parameters),
            },
        )
        for name, (description, parameters) in TOOLS.items()
    }


@pytest.fixture
def write_tree(tmp_path):
    """Write modules below a root."""

    def write(modules):
        for path, source in modules.items():
            file = tmp_path / "tools" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(dedent(source), encoding="utf-8")
        return tmp_path / "tools"

    return write


@pytest.fixture
def forget_modules(monkeypatch):
    """Forget imported tools, so that a test imports its own tree."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    for name in [it for it in sys.modules if it.partition(".")[0] in {"mcptools", "gentools"}]:
        del sys.modules[name]


@pytest.fixture
def provider():
    """Start a server that returns given answers in order, and records the requests."""

    @contextmanager
    def started(*answers):
        requests, left = [], list(answers)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                length = int(self.headers["content-length"])
                requests.append(json.loads(self.rfile.read(length)))
                body = json.dumps(left.pop(0)).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments):
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}", requests
            finally:
                server.shutdown()
                thread.join(PATIENCE)

    return started
