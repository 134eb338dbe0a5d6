"""Limiting connections: anyone who can reach the address can open them and stay silent."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from pytools_hybrid.serve.http._access import ON_ACCEPTED

if TYPE_CHECKING:
    import asyncio


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 that closes a connection when there is no room for a new one.

    That is the oldest one without an accepted request, or else the one whose last request is the
    oldest: an endless stream or an idle connection, which clients open again.

    Args:
        others: The open connections, the oldest first, and whether a request was accepted.
        most: The maximum number of connections.
    """

    def __init__(
        self,
        *arguments: Any,  # noqa: ANN401 - as there
        others: dict[LimitedProtocol, bool],
        most: int,
        **options: Any,  # noqa: ANN401 - as there
    ) -> None:
        super().__init__(*arguments, **options)
        self._others = others
        self._most = most

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for the connection."""
        super().connection_made(transport)
        while len(self._others) >= self._most:
            strangers = (it for it, is_accepted in self._others.items() if not is_accepted)
            oldest = next(strangers, next(iter(self._others)))
            del self._others[oldest]
            oldest.transport.abort()
        self._others[self] = False

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._others.pop(self, None)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Start complete requests; the gate reports which of them it accepts."""
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
