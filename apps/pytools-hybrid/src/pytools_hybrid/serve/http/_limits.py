"""Limits on concurrent searches and on the bodies of requests."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect

from pytools_hybrid.serve.http._problems import ProblemError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_QUERY = 2_000
"""The maximum length of a query, longer than any request in plain language."""

# Only a few of these compute at a time; the others wait for a model or for one another.
_AT_WORK = 128
_WAITING = 512
_BODY_SECONDS = 20.0
# A client that sends a little too much should get an error, not a broken connection.
_DISCARDED = 4 * 1024 * 1024
_DISCARD_SECONDS = 2.0


class SearchLimit:
    """Limits how many searches run at once and how many wait; the others have to try again."""

    def __init__(self, at_work: int = _AT_WORK, waiting: int = _WAITING) -> None:
        self._free = asyncio.Semaphore(at_work)
        self._room = at_work + waiting
        self._taken = 0

    @asynccontextmanager
    async def taken(self) -> AsyncGenerator[None]:
        """Wait for a slot and keep it for the block; raise `ProblemError` if too many wait."""
        if self._taken >= self._room:
            raise ProblemError(
                503, "too many searches are queued; try again", headers={"Retry-After": "1"}
            )
        self._taken += 1
        try:
            async with self._free:
                yield
        finally:
            self._taken -= 1


class BodyLimit:
    """Reads the bodies of requests in advance, and refuses large and slow ones.

    Args:
        largest: The maximum size of a body, in bytes.
        of_paths: Other maximums for some paths.
    """

    def __init__(self, app: ASGIApp, *, largest: int, of_paths: Mapping[str, int]) -> None:
        self._app = app
        self._largest = largest
        self._of_paths = of_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its whole body."""
        if scope["type"] != "http" or not _has_body(scope):
            await self._app(scope, receive, send)
            return
        limit = self._of_paths.get(scope["path"], self._largest)
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                body = await _read(receive, limit)
        except TimeoutError:
            await _refuse(408, "the body did not arrive in time", scope, receive, send)
            return
        except ClientDisconnect:
            return
        if body is None:
            detail = f"the body is larger than {limit} bytes"
            await _refuse(413, detail, scope, receive, send)
            return
        await self._app(scope, _replay(body, receive), send)


def _has_body(scope: Scope) -> bool:
    names = {name for name, _ in scope["headers"]}
    return not names.isdisjoint({b"content-length", b"transfer-encoding"})


async def _read(receive: Receive, limit: int) -> bytes | None:
    """Return the body; None if it is too large, after discarding the rest."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        body += message.get("body", b"")
        is_last = not message.get("more_body", False)
        if len(body) > limit:
            if not is_last:
                await _discard(receive)
            return None
        if is_last:
            return bytes(body)


async def _discard(receive: Receive) -> None:
    size = 0
    try:
        async with asyncio.timeout(_DISCARD_SECONDS):
            while size < _DISCARDED:
                message = await receive()
                size += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return
    except TimeoutError:
        return


async def _refuse(status: int, detail: str, scope: Scope, receive: Receive, send: Send) -> None:
    # Otherwise the rest of the body would be taken for the next request.
    problem = ProblemError(status, detail, headers={"Connection": "close"})
    await problem.response(scope)(scope, receive, send)


def _replay(body: bytes, receive: Receive) -> Receive:
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return messages.pop() if messages else await receive()

    return next_message
