"""Requests that are interrupted when the server stops."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytools_hybrid.serve.http._problems import ProblemError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class AnswerWhenCut:
    """Asks clients of interrupted requests to try again; a response that has begun just ends."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def send_noted(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, send_noted)
        except asyncio.CancelledError:
            # Requests are only cancelled when the server stops, not when a client disconnects.
            if not has_begun:
                headers = {"Retry-After": "1", "Connection": "close"}
                problem = ProblemError(
                    503, "the server is shutting down; try again", headers=headers
                )
                await problem.response(scope)(scope, receive, send)
