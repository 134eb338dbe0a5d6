"""Limiting connections: how many there are, and how long they may stay silent.

Anyone who can reach the address can open connections and stay silent. Only connections with an
accepted request are kept; of the others, the oldest is closed to make room for a new one.
"""

from __future__ import annotations

from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from pytools_hybrid.serve.http._descriptors import MOST_CONNECTIONS
from pytools_hybrid.serve.http._problems import ProblemError
from pytools_hybrid.serve.http._security import LET_IN

if TYPE_CHECKING:
    import asyncio

_HEADERS_SECONDS = 20.0


class Places:
    """The connections that a server has room for, and which of them is closed first."""

    def __init__(self, most: int = MOST_CONNECTIONS) -> None:
        self.most = most
        # Oldest first.
        self._strangers: dict[ImpatientProtocol, None] = {}

    def enter(self, newest: ImpatientProtocol, among: int) -> bool:
        """Make room for a connection, and return whether there is any.

        The connection may be closed for a newer one until one of its requests is accepted.
        """
        if among > self.most:
            oldest = next(iter(self._strangers), None)
            if oldest is None:
                return False
            self.leave(oldest)
            oldest.transport.abort()
        self._strangers[newest] = None
        return True

    def leave(self, connection: ImpatientProtocol) -> None:
        """Forget a connection that has closed, or that had a request accepted."""
        self._strangers.pop(connection, None)


class ImpatientProtocol(H11Protocol):
    """HTTP/1.1 with a time limit for the headers of a request."""

    _deadline: asyncio.TimerHandle | None = None

    def __init__(
        self,
        *arguments: Any,  # noqa: ANN401 - as there
        places: Places,
        **options: Any,  # noqa: ANN401 - as there
    ) -> None:
        super().__init__(*arguments, **options)
        self._places = places

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, or refuse a connection if there are too many."""
        super().connection_made(transport)
        if self._places.enter(self, len(self.connections)):
            self._expect_headers()
        else:
            detail = "too many connections are open; try again later"
            self._refuse(ProblemError(503, detail, headers={"Retry-After": "1"}))

    def data_received(self, data: bytes) -> None:
        """Process received data; only complete headers end the time limit."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self._expect_headers()
        else:
            self._forget_deadline()

    def handle_events(self) -> None:
        """Start complete requests; the gate reports which of them it accepts."""
        super().handle_events()
        # None before the first request, although uvicorn's annotation excludes it.
        if self.scope is not None:  # pyright: ignore[reportUnnecessaryComparison]
            self.scope.setdefault("state", {})[LET_IN] = self._stay

    def send_400_response(self, msg: str) -> None:
        """Refuse data that is not HTTP."""
        self._refuse(ProblemError(400, "this is not an HTTP/1.1 request"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting for requests."""
        self._forget_deadline()
        self._places.leave(self)
        super().connection_lost(exc)

    def _stay(self) -> None:
        self._places.leave(self)

    def _refuse(self, problem: ProblemError) -> None:
        # None before the first request, although uvicorn's annotation excludes it.
        if self.cycle is not None:  # pyright: ignore[reportUnnecessaryComparison]
            # The request turned out to be invalid: its handler must not answer too.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        # The path may not be known yet.
        response = problem.response({"path": ""})
        head = h11.Response(
            status_code=response.status_code,
            reason=HTTPStatus(problem.status).phrase.encode(),
            headers=[*response.raw_headers, (b"connection", b"close")],
        )
        # h11 refuses a second answer, and a body in the answer to HEAD.
        with suppress(h11.LocalProtocolError):
            for event in (head, h11.Data(data=bytes(response.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event))
        self.transport.close()

    def _expect_headers(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(_HEADERS_SECONDS, self._give_up)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.close()
