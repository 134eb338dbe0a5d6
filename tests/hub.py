"""A hub of models on this machine, as far as a download asks one."""

from __future__ import annotations

import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Hub", "serving_hub"]

_COMMIT = "1" * 40


class Hub:
    """The models that there are, and what was asked for.

    Attributes:
        models: The files of each model, by its repository.
        asked: The method and path of each request, in order.
        breaks_off: The files whose content ends in the middle.
        address: Where it listens.
    """

    def __init__(self, models: Mapping[str, Mapping[str, bytes]]) -> None:
        self.models = models
        self.asked: list[tuple[str, str]] = []
        self.breaks_off: set[str] = set()
        self.address = ""

    def fetched(self) -> set[str]:
        """Give the names of the files whose content was asked for."""
        return {
            path.partition("/resolve/main/")[2]
            for method, path in self.asked
            if method == "GET" and "/resolve/" in path
        }


@contextmanager
def serving_hub(models: Mapping[str, Mapping[str, bytes]]) -> Iterator[Hub]:
    """Serve some models for a while."""
    hub = Hub(models)
    handler = type("Handler", (_Handler,), {"hub": hub})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        hub.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: ClassVar[Hub]

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, *, with_body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append((self.command, path))
        for repository, files in self.hub.models.items():
            if path.startswith(f"/api/models/{repository}"):
                siblings = [{"rfilename": name, "size": len(it)} for name, it in files.items()]
                details = {"id": repository, "sha": _COMMIT, "siblings": siblings}
                self._send(json.dumps(details).encode(), "application/json", with_body=with_body)
                return
            name = path.removeprefix(f"/{repository}/resolve/main/")
            if name in files:
                self._send(files[name], "application/octet-stream", with_body=with_body, name=name)
                return
        self.send_response(404)
        self.send_header("X-Error-Code", "RepoNotFound")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, body: bytes, kind: str, *, with_body: bool, name: str = "") -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Repo-Commit", _COMMIT)
        self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
        self.end_headers()
        if name in self.hub.breaks_off:
            body = body[: len(body) // 2]
            self.close_connection = True
        if with_body:
            self.wfile.write(body)
