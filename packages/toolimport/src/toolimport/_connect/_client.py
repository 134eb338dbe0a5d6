"""An open connection to a server, as the `mcp` library's client, and why one failed."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

import httpx2
from mcp.client.client import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED
from pydantic import ValidationError

from toolimport._connect._messages import ReceivedMessages, Repairs, SentMessages
from toolimport._errors import ServerError, innermost
from toolimport.clients._servers import Parameters, StdioParameters

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from mcp.client._transport import TransportStreams

    from toolimport.clients._secrets import Redactor

_LINES = 20
# Longer than what is shown, because a secret that is cut would not be found.
_KEPT = 16 * 1024
# Two seconds. Polls are counted, because a busy machine may stall for longer.
_POLL_SECONDS, _POLLS = 0.005, 400
_LINE_LENGTH = 500
_MESSAGE_LENGTH = 2000
# The library's messages for an answer with nothing but an HTTP status.
_STAND_INS = frozenset({"Server returned an error response", "Not Found", "Session terminated"})


class StderrTail:
    """The last lines that a process wrote to stderr, which may contain secrets."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=_LINES)
        self._ended = threading.Event()

    @contextmanager
    def writing(self) -> Generator[TextIO]:
        """Provide a file to use as a process's stderr."""
        read, write = os.pipe()
        # Not joined, because a grandchild may keep the other end open forever.
        thread = threading.Thread(
            target=self._collect, args=(read,), name="mcp-stderr", daemon=True
        )
        with os.fdopen(write, "w", encoding="utf-8") as file:
            try:
                thread.start()
            except BaseException:
                os.close(read)
                raise
            yield file

    def _collect(self, read: int) -> None:
        with os.fdopen(read, "r", encoding="utf-8", errors="replace") as file:
            # In chunks, because a server may write without ever ending a line.
            is_first = True
            while piece := file.readline(_KEPT):
                if is_first and (text := piece.strip()):
                    self.lines.append(text)
                is_first = piece.endswith("\n")
        self._ended.set()

    async def all_read(self) -> None:
        """Wait for the last lines of a server that has ended, but not for its children's."""
        for _ in range(_POLLS):
            if self._ended.is_set():
                return
            await asyncio.sleep(_POLL_SECONDS)


@dataclass
class Diagnostics:
    """What a connection has shown besides answers: the last lines on stderr, the last HTTP error.

    Attributes:
        status: The last HTTP status that was not a success, or None.
        asks_for_sign_in: Whether the server requires a token, and none was sent.
    """

    repairs: Repairs = field(default_factory=Repairs)
    stderr: StderrTail = field(default_factory=StderrTail)
    status: str | None = None
    asks_for_sign_in: bool = False

    async def note(self, response: httpx2.Response) -> None:
        """Remember the status of a failed request, until one succeeds."""
        # Many servers have no GET stream, which is not a failure.
        if response.status_code != 405 or response.request.method != "GET":
            refused = f"{response.status_code} {response.reason_phrase}".strip()
            self.status = refused if response.is_error else None
            challenge = response.headers.get("WWW-Authenticate", "").lower()
            is_sent = "Authorization" in response.request.headers
            self.asks_for_sign_in = challenge.startswith("bearer") and not is_sent

    def explain(self, error: BaseException, server: str, redactor: Redactor) -> ServerError:
        """Explain what went wrong with a connection, without revealing secrets."""
        error = innermost(error)
        if isinstance(error, ServerError):
            return error

        message = str(error)
        if isinstance(error, ValidationError):
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            message = f"its answer is invalid: {place}: {first['msg']}"
        text = _short(message, _MESSAGE_LENGTH, redactor) or type(error).__name__
        is_answer = isinstance(error, MCPError) and not is_closed(error)
        if is_answer and (self.status is None or text not in _STAND_INS):
            return ServerError(server, text)
        if isinstance(error, ValueError | RuntimeError):  # it answered, but with an error
            return ServerError(server, text)
        if self.status is not None:
            text = f"answered {_short(self.status, _LINE_LENGTH, redactor)}"
            if self.asks_for_sign_in:
                text += "; its server asks for a sign-in (OAuth): put a token in its 'headers'"
            elif self.status.startswith(("401", "403")):
                text += "; check its 'headers'"
        elif isinstance(
            error, httpx2.DecodingError | httpx2.ReadError | httpx2.RemoteProtocolError
        ):
            text = f"its answer cannot be read: {text}; a call may have been carried out"
        elif isinstance(error, httpx2.HTTPError | httpx2.InvalidURL):
            text = f"cannot be reached: {text}"
        elif isinstance(error, MCPError):
            text = "ended before it answered"
        with suppress(RuntimeError):  # copied, because the thread may be adding a line
            if lines := tuple(self.stderr.lines):
                shown = (_short(line, _LINE_LENGTH, redactor) for line in lines[-5:])
                text += "; its last lines were: " + " | ".join(shown)
        return ServerError(server, text)


def is_closed(error: BaseException) -> bool:
    """Return whether the library, rather than the server, reports a closed connection."""
    # The code is not enough: most servers use the same one for their own errors.
    return (
        isinstance(error, MCPError)
        and error.code == CONNECTION_CLOSED
        and error.message.startswith(("Connection closed", "SSE stream "))
    )


def _short(text: str, length: int, redactor: Redactor) -> str:
    # Cut after redaction, because half a secret would not be found.
    return " ".join(redactor.text(text).split())[:length]


@asynccontextmanager
async def connected(
    parameters: Parameters,
    diagnostics: Diagnostics,
    **callbacks: Any,  # noqa: ANN401 - as the library has them
) -> AsyncGenerator[Client]:
    """Connect to a server for the duration of the block.

    `diagnostics.explain` makes any error readable. The callbacks are options of the library's
    client that answer the server's requests.
    """

    @asynccontextmanager
    async def repaired() -> AsyncGenerator[TransportStreams]:
        async with _transport(parameters, diagnostics) as (read, write):
            repairs = diagnostics.repairs
            yield ReceivedMessages(read, repairs), SentMessages(write, repairs)

    async with Client(repaired(), **callbacks) as client:
        yield client


@asynccontextmanager
async def _transport(
    parameters: Parameters, diagnostics: Diagnostics
) -> AsyncGenerator[TransportStreams]:
    if isinstance(parameters, StdioParameters):
        from toolimport._connect._process import process_streams

        with diagnostics.stderr.writing() as errors:
            try:
                async with process_streams(parameters, errors, diagnostics.repairs) as streams:
                    yield streams
            except Exception:
                await diagnostics.stderr.all_read()
                raise
        return
    from toolimport._connect._http import http_client

    def client(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        return http_client(parameters, diagnostics.note)

    if parameters.transport == "sse":
        async with sse_client(parameters.url, httpx_client_factory=client) as streams:
            yield streams
    else:
        async with (
            client() as http,
            streamable_http_client(
                parameters.url, http_client=http, max_sse_event_size=None
            ) as streams,
        ):
            yield streams
