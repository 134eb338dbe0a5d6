"""Limiting connections: anyone who can reach the address can open them and stay silent."""

from __future__ import annotations

from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from pytools_hybrid.serve.http._access import LET_IN
from pytools_hybrid.serve.http._descriptors import MOST_CONNECTIONS
from pytools_hybrid.serve.http._problems import ProblemError

if TYPE_CHECKING:
    import asyncio


class ConnectionLimit:
    """Closes a connection when there is no room for a new one.

    That is the oldest one without an accepted request, or else the one whose last request is the
    oldest: an endless stream or an idle connection, which clients open again.
    """

    def __init__(self, most: int = MOST_CONNECTIONS) -> None:
        self._most = most
        # Oldest first.
        self._strangers: dict[LimitedProtocol, None] = {}
        self._accepted: dict[LimitedProtocol, None] = {}

    def add(self, connection: LimitedProtocol) -> None:
        """Make room for a connection."""
        while len(self._strangers) + len(self._accepted) >= self._most:
            oldest = next(iter(self._strangers or self._accepted))
            self.remove(oldest)
            oldest.transport.abort()
        self._strangers[connection] = None

    def accept(self, connection: LimitedProtocol) -> None:
        """Note that a request of a connection was accepted."""
        if connection in self._strangers or connection in self._accepted:
            self.remove(connection)
            self._accepted[connection] = None

    def remove(self, connection: LimitedProtocol) -> None:
        """Forget a connection that has closed."""
        self._strangers.pop(connection, None)
        self._accepted.pop(connection, None)


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 over a limited number of connections, with problem details for invalid requests."""

    def __init__(
        self,
        *arguments: Any,  # noqa: ANN401 - as there
        limit: ConnectionLimit,
        **options: Any,  # noqa: ANN401 - as there
    ) -> None:
        super().__init__(*arguments, **options)
        self._limit = limit

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection."""
        super().connection_made(transport)
        self._limit.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._limit.remove(self)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Start complete requests; the gate reports which of them it accepts."""
        super().handle_events()
        # None before the first request, although uvicorn's annotation excludes it.
        if self.scope is not None:  # pyright: ignore[reportUnnecessaryComparison]
            self.scope.setdefault("state", {})[LET_IN] = self._accept

    def send_400_response(self, msg: str) -> None:
        """Refuse data that is not HTTP."""
        # None before the first request, although uvicorn's annotation excludes it.
        if self.cycle is not None:  # pyright: ignore[reportUnnecessaryComparison]
            # The request turned out to be invalid: its handler must not answer too.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        # The path may not be known yet.
        response = ProblemError(400, "this is not an HTTP/1.1 request").response({"path": ""})
        head = h11.Response(
            status_code=response.status_code,
            reason=HTTPStatus.BAD_REQUEST.phrase.encode(),
            headers=[*response.raw_headers, (b"connection", b"close")],
        )
        # h11 refuses a second answer, and a body in the answer to HEAD.
        with suppress(h11.LocalProtocolError):
            for event in (head, h11.Data(data=bytes(response.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event))
        self.transport.close()

    def _accept(self) -> None:
        self._limit.accept(self)
