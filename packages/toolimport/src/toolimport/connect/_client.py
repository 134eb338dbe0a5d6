"""An open connection to a server, as the `mcp` library's client."""

from __future__ import annotations

import asyncio
import os
import select
import sys
import threading
from collections import deque
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TextIO
from urllib.parse import urlsplit

from toolimport.connect._lenient import Repairs, lenient
from toolimport.connect._parameters import HttpParameters, Parameters, StdioParameters
from toolimport.system import start_thread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator

    import httpx2
    from mcp.client.client import Client
    from mcp.shared.message import SessionMessage


_LINES = 20
# Longer than what is shown, because a secret that is cut would not be found.
_KEPT = 16 * 1024
_POLL_SECONDS = 0.005
# Half a second, and ten seconds. Polls are counted, because a busy machine may stall for longer.
_QUIET_POLLS = 100
_MAX_POLLS = 2_000
_CONNECT_SECONDS = 30.0
# A tool may take long; the caller sets the time limit of a call.
_READ_SECONDS = 24 * 3600.0


class StderrTail:
    """The last lines that a server wrote to stderr, and the last HTTP error that it returned.

    Args:
        is_for_calls: Whether the connection is for calling tools rather than importing all of them.

    Attributes:
        status: The last HTTP status that was not a success, or None.
        asks_for_sign_in: Whether the server requires a token, and none was sent.
        repairs: The errors in its messages.
    """

    def __init__(self, *, is_for_calls: bool = False) -> None:
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._ended = threading.Event()
        self._read = -1
        self.status: str | None = None
        self.asks_for_sign_in: bool = False
        self.repairs: Repairs = Repairs(is_for_calls=is_for_calls)

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines so far, which may contain secrets."""
        return tuple(self._lines)

    @contextmanager
    def writing(self) -> Generator[TextIO]:
        """Provide a file to use as a process's stderr."""
        read, write = os.pipe()
        self._read = read
        # Not joined, because a grandchild may keep the other end open forever.
        thread = threading.Thread(
            target=self._collect, args=(read,), name="mcp-stderr", daemon=True
        )
        with os.fdopen(write, "w", encoding="utf-8") as file:
            try:
                start_thread(thread)
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
                    self._lines.append(text)
                is_first = piece.endswith("\n")
        self._ended.set()

    async def all_read(self) -> None:
        """Wait for the last lines of a server that has ended.

        The wait is short if nothing is left to read, because a grandchild may keep the pipe open.
        """
        quiet = 0
        for _ in range(_MAX_POLLS):
            if self._ended.is_set() or quiet >= _QUIET_POLLS:
                return
            # If there is something to read, the thread has not run yet.
            quiet = 0 if _has_input(self._read) else quiet + 1
            await asyncio.sleep(_POLL_SECONDS)

    async def note(self, response: httpx2.Response) -> None:
        """Remember the status of a failed request, until one succeeds."""
        # Many servers have no GET stream, which is not a failure.
        if response.status_code != 405 or response.request.method != "GET":
            refused = f"{response.status_code} {response.reason_phrase}".strip()
            self.status = refused if response.is_error else None
            challenge = response.headers.get("WWW-Authenticate", "").lower()
            is_sent = "Authorization" in response.request.headers
            self.asks_for_sign_in = challenge.startswith("bearer") and not is_sent


def _has_input(pipe: int) -> bool:
    """Return whether a pipe has something to read, or its end; False if the system cannot tell."""
    if sys.platform == "win32" or pipe < 0:
        return False
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    return any(not event & select.POLLNVAL for _, event in poll.poll(0))


@asynccontextmanager
async def connected(
    parameters: Parameters,
    tail: StderrTail,
    *,
    on_sent: Callable[[SessionMessage], None] | None = None,
    **callbacks: Any,  # noqa: ANN401 - as the library has them
) -> AsyncGenerator[Client]:
    """Connect to a server for the duration of the block.

    Args:
        parameters: What the connection needs.
        tail: Receives what the server writes to stderr.
        on_sent: Called with each message before it is sent.
        **callbacks: Options of the library's client that answer the server's requests.

    Raises:
        Exception: Any error of the library; `explain` makes it readable.
    """
    from mcp.client.client import Client

    transport = lenient(_transport(parameters, tail), tail.repairs, on_sent)
    async with Client(transport, **callbacks) as client:
        yield client


def _transport(parameters: Parameters, tail: StderrTail) -> Transport:
    if isinstance(parameters, StdioParameters):
        return _process(parameters, tail)
    if parameters.transport == "sse":
        return _events(parameters, tail)
    return _streamable(parameters, tail)


@asynccontextmanager
async def _process(
    parameters: StdioParameters, tail: StderrTail
) -> AsyncGenerator[TransportStreams]:
    from toolimport.connect._process import process_streams

    with tail.writing() as errors:
        try:
            async with process_streams(parameters, errors, tail.repairs) as streams:
                yield streams
        except Exception:
            await tail.all_read()
            raise


@asynccontextmanager
async def _streamable(
    parameters: HttpParameters, tail: StderrTail
) -> AsyncGenerator[TransportStreams]:
    from mcp.client.streamable_http import streamable_http_client

    async with (
        _http_client(parameters, tail) as client,
        streamable_http_client(
            parameters.url, http_client=client, max_sse_event_size=None
        ) as streams,
    ):
        yield streams


@asynccontextmanager
async def _events(parameters: HttpParameters, tail: StderrTail) -> AsyncGenerator[TransportStreams]:
    from mcp.client.sse import sse_client

    def factory(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        return _http_client(parameters, tail)

    async with sse_client(parameters.url, httpx_client_factory=factory) as streams:
        yield streams


def _http_client(parameters: HttpParameters, tail: StderrTail) -> httpx2.AsyncClient:
    import httpx2

    from toolimport.connect._lenient_http import repair_response

    is_here = urlsplit(parameters.url).hostname in {"localhost", "127.0.0.1", "::1"}

    class ShownUrl(httpx2.URL):
        """An address that appears in logs without secrets."""

        def __str__(self) -> str:
            return parameters.redactor.text(super().__str__())

    async def hide_secrets(request: httpx2.Request) -> None:
        request.url = ShownUrl(request.url)

    return httpx2.AsyncClient(
        # Proxies cannot reach this machine's own addresses.
        trust_env=not is_here,
        headers=dict(parameters.headers),
        timeout=httpx2.Timeout(_CONNECT_SECONDS, read=_READ_SECONDS),
        event_hooks={"request": [hide_secrets], "response": [tail.note, repair_response]},
    )


if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

    Transport = AbstractAsyncContextManager[TransportStreams]
