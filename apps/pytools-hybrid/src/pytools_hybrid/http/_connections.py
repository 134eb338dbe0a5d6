"""Connections: how many there are, how long they wait for a request, and what is no request."""

from __future__ import annotations

from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from pytools_hybrid.http._descriptors import MOST_CONNECTIONS
from pytools_hybrid.http._problems import ProblemError

if TYPE_CHECKING:
    import asyncio

__all__ = ["ImpatientProtocol"]

_HEADERS_SECONDS = 20.0


class ImpatientProtocol(H11Protocol):
    """HTTP/1.1, where the headers of a request must come within some seconds.

    Args:
        arguments: Those of uvicorn's protocol.
        most: How many connections there may be at once.
        options: Further ones of uvicorn's protocol.
    """

    _deadline: asyncio.TimerHandle | None = None

    def __init__(
        self,
        *arguments: Any,  # noqa: ANN401 - as there
        most: int = MOST_CONNECTIONS,
        **options: Any,  # noqa: ANN401 - as there
    ) -> None:
        super().__init__(*arguments, **options)
        self._most = most

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, or refuse a connection too many."""
        super().connection_made(transport)
        if len(self.connections) > self._most:
            detail = "too many connections are open; come again"
            self._refuse(ProblemError(503, detail, headers={"Retry-After": "1"}))
        else:
            self._expect_headers()

    def data_received(self, data: bytes) -> None:
        """Take what has come; only whole headers put the deadline off."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self._expect_headers()
        else:
            self._forget_deadline()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP."""
        self._refuse(ProblemError(400, "this is no request of HTTP/1.1"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._forget_deadline()
        super().connection_lost(exc)

    def _refuse(self, problem: ProblemError) -> None:
        # uvicorn says that there always is one, and has None before the first request.
        if self.cycle is not None:  # pyright: ignore[reportUnnecessaryComparison]
            # What is at work on a request whose body broke must not answer as well.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        # There may be no path yet.
        response = problem.response({"path": ""})
        head = h11.Response(
            status_code=response.status_code,
            reason=HTTPStatus(problem.status).phrase.encode(),
            headers=[*response.raw_headers, (b"connection", b"close")],
        )
        # Nothing can be sent after an answer, and no body in answer to HEAD.
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
