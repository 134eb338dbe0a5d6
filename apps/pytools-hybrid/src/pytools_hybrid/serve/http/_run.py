"""Running the application, from binding the address to the end of the last request."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from pytools_hybrid.errors import PytoolsError
from pytools_hybrid.serve.http._access import ON_ACCEPTED, check_exposure
from pytools_hybrid.serve.http._app import create_app
from pytools_hybrid.terminal import say

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from mcp.server.mcpserver import MCPServer

    from pytools_hybrid.index import Follower
    from pytools_hybrid.search import ToolSearch
    from pytools_hybrid.serve.http.console import Console
    from pytools_hybrid.settings import Settings

_GRACE_SECONDS = 0.5
_GOODBYE_SECONDS = 0.2
_KEEP_ALIVE_SECONDS = 75
_BACKLOG = 2048
_CONNECTIONS = 1_000
# How many connections are accepted before any of them can be closed.
_NEW_AT_ONCE = 32
# For the databases of running searches, watched folders and models.
_OTHER_FILES = 128
# A query of 2,000 characters, each of four bytes written as %XX.
_HEADER_BYTES = 64 * 1024


class AddressError(PytoolsError):
    """The server cannot listen at its address."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(
            f"cannot listen on {host}, port {port}: {reason}. Choose others with --host and "
            "--port; --port 0 selects a free one."
        )
        self.host = host
        self.port = port


async def serve_http(
    search: ToolSearch | None,
    follower: Follower | None,
    settings: Settings,
    server: MCPServer[None],
    *,
    invite: Callable[[str], None] | None = None,
) -> None:
    """Serve over HTTP until cancelled; running requests then have half a second to finish.

    Once the server is running, `invite` is called with an address that opens the console once.

    Raises:
        SettingsError: The address can be reached from other machines, and there is no token.
        AddressError: The address is in use, or not this machine's.
    """
    check_exposure(settings)
    # Any client could fill the log with warnings, by invalid HTTP or WebSocket requests.
    with _listener(settings.host, settings.port) as listener, _level(logging.ERROR):
        app = create_app(search, follower, server, settings)
        host, port = settings.host, listener.getsockname()[1]
        url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

        def started() -> None:
            # uvicorn's smaller backlog limits how many are accepted at once, not how many may wait.
            listener.listen(_BACKLOG)
            say(f"serving on {url} (MCP at {url}/mcp, the API at {url}/openapi.json)")
            console: Console | None = app.state.console
            if invite is not None and console is not None:
                invite(url + console.invitation())

        config = uvicorn.Config(
            app,
            # The option is declared as a class, but is only ever called.
            http=cast("type[ConnectionLimit]", partial(ConnectionLimit, open_connections={})),
            ws="none",
            lifespan="on",
            loop="asyncio",
            log_config=None,
            log_level=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=_NEW_AT_ONCE,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            h11_max_incomplete_event_size=_HEADER_BYTES,
        )
        # The option is declared as an integer, but is only used as a time-out.
        config.timeout_graceful_shutdown = cast("int", _GRACE_SECONDS)
        running = _Server(config, started)
        serving = asyncio.create_task(running.serve([listener]))
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            if not serving.cancelled():
                await running.stop(serving)
            raise


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends at once (TCP_NODELAY) only over sockets whose protocol is named.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            # Otherwise the address would be in use for a minute after the last server.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except (OSError, OverflowError, UnicodeError) as error:
        listener.close()
        raise AddressError(host, port, getattr(error, "strerror", None) or str(error)) from error
    return listener


@contextmanager
def _level(level: int) -> Generator[None]:
    """Log what uvicorn reports from this level on, during a block."""
    logger = logging.getLogger("uvicorn.error")
    before = logger.level
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.setLevel(before)


class _Server(uvicorn.Server):
    """A server that leaves signals to its caller, which it calls when it has started."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._started = started

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._started()

    async def stop(self, serving: asyncio.Task[None]) -> None:
        """Stop serving; streams that clients keep open are cut off."""
        # uvicorn would log every endless stream that is cut off.
        with _level(logging.CRITICAL):
            self.should_exit = True
            await asyncio.wait({serving})
            if cut := set(self.server_state.tasks):
                await asyncio.wait(cut, timeout=_GOODBYE_SECONDS)


class ConnectionLimit(H11Protocol):
    """HTTP/1.1 that closes a connection when there is no room for a new one.

    Anyone who can reach the address can open connections and stay silent. The one that is closed is
    the oldest without an accepted request, or else the one whose last request is the oldest: an
    endless stream or an idle connection, which clients open again.

    Args:
        open_connections: The open connections, the oldest first, and whether a request was
            accepted.
    """

    def __init__(
        self,
        *arguments: Any,  # noqa: ANN401 - as there
        open_connections: dict[ConnectionLimit, bool],
        **options: Any,  # noqa: ANN401 - as there
    ) -> None:
        super().__init__(*arguments, **options)
        self._others = open_connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        while len(self._others) >= _most_connections():
            strangers = (it for it, is_accepted in self._others.items() if not is_accepted)
            oldest = next(strangers, next(iter(self._others)))
            del self._others[oldest]
            oldest.transport.abort()
        self._others[self] = False

    def connection_lost(self, exc: Exception | None) -> None:
        self._others.pop(self, None)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        # None before the first request, although uvicorn's annotation excludes it.
        if self.scope is not None:  # pyright: ignore[reportUnnecessaryComparison]
            self.scope.setdefault("state", {})[ON_ACCEPTED] = self._accept

    def send_400_response(self, msg: str) -> None:
        """Refuse data that is not HTTP, once."""
        if self.cycle is not None:  # pyright: ignore[reportUnnecessaryComparison]
            # The request turned out to be invalid: its handler must not answer too.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        # h11 refuses a second answer.
        with suppress(h11.LocalProtocolError):
            super().send_400_response(msg)
        self.transport.close()

    def _accept(self) -> None:
        if self._others.pop(self, None) is not None:
            self._others[self] = True


def _most_connections() -> int:
    """Return how many connections fit: some systems start a process with a limit of 256 files."""
    if sys.platform == "win32":
        return _CONNECTIONS
    import resource

    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = files - _OTHER_FILES - _NEW_AT_ONCE
    return _CONNECTIONS if files == resource.RLIM_INFINITY else min(_CONNECTIONS, max(16, room))
