"""Sessions of MCP: those that clients leave behind make room for new ones."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from starlette.datastructures import Headers

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SESSION = "mcp-session-id"


class SessionLimit:
    """Ends the session that has been silent longest when there are too many.

    A client that comes back to it is told so, and opens another one. Sessions that are waiting
    for an answer, or listening, are left alone.

    Args:
        app: What answers, and keeps the sessions; it must have room for some more.
        path: Where it speaks MCP.
        most: How many sessions there may be.
    """

    def __init__(self, app: ASGIApp, *, path: str, most: int) -> None:
        self._app = app
        self._path = path
        self._most = most
        # Requests in flight, by session; the one that was silent longest comes first.
        self._sessions: OrderedDict[str, int] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and make room after one that has opened a session."""
        if scope["type"] != "http" or scope["path"] != self._path:
            await self._app(scope, receive, send)
            return
        session = Headers(scope=scope).get(_SESSION)
        if session is None:
            await self._app(scope, receive, self._noting(send))
            await self._make_room(scope)
        elif session in self._sessions:
            await self._in_flight(session, scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _in_flight(self, session: str, scope: Scope, receive: Receive, send: Send) -> None:
        self._sessions[session] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            if session in self._sessions:
                self._sessions[session] -= 1
                self._sessions.move_to_end(session)
                if scope["method"] == "DELETE":
                    del self._sessions[session]

    def _noting(self, send: Send) -> Send:
        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                opened = Headers(raw=message.get("headers", [])).get(_SESSION)
                if opened is not None and message["status"] < 400:
                    self._sessions[opened] = 0
            await send(message)

        return noted

    async def _make_room(self, scope: Scope) -> None:
        excess = len(self._sessions) - self._most
        if excess <= 0:
            return
        # The newest is what room is made for.
        *older, _ = self._sessions.items()
        silent = [session for session, requests in older if not requests]
        for session in silent[:excess]:
            del self._sessions[session]
            # As its client would do; one that has ended by itself is not found, and gone as well.
            end = dict(scope, method="DELETE", headers=[(_SESSION.encode(), session.encode())])
            await self._app(end, _nothing, _nowhere)


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _nowhere(_: Message) -> None:
    return
