"""HTTP requests to a server, and repairing its answers before the library reads them.

Afterwards is too late: the library does not keep the text of an answer that it cannot read, but
writes it to its log.
"""

from __future__ import annotations

import json
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx2
from mcp.types import jsonrpc_message_adapter

from toolimport._connect._messages import Answer, read_message

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

    from mcp.shared.message import SessionMessage
    from mcp_types import RequestId
    from pydantic import JsonValue

    from toolimport.clients._servers import HttpParameters

_JSON, _EVENTS = "application/json", "text/event-stream"
# What some servers call JSON.
_KINDS = {_JSON, _EVENTS, "text/plain", "text/json", ""}
_OK = 200
_CONNECT_SECONDS = 30.0
# A tool may take long; the caller sets the time limit of a call.
_READ_SECONDS = 24 * 3600.0


def http_client(
    parameters: HttpParameters, on_response: Callable[[httpx2.Response], Awaitable[None]]
) -> httpx2.AsyncClient:
    """Return a client whose logs show no secrets, and whose answers are repaired."""
    is_here = urlsplit(parameters.url).hostname in {"localhost", "127.0.0.1", "::1"}

    class ShownUrl(httpx2.URL):
        def __str__(self) -> str:
            return parameters.redactor.text(super().__str__())

    async def hide_secrets(request: httpx2.Request) -> None:
        request.url = ShownUrl(request.url)

    return httpx2.AsyncClient(
        # Proxies cannot reach this machine's own addresses.
        trust_env=not is_here,
        headers=dict(parameters.headers),
        timeout=httpx2.Timeout(_CONNECT_SECONDS, read=_READ_SECONDS),
        event_hooks={"request": [hide_secrets], "response": [on_response, _repair]},
    )


async def _repair(response: httpx2.Response) -> None:
    """Repair a response's messages as they are read."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if response.status_code != _OK or kind not in _KINDS:
        return
    received = httpx2.Response(
        response.status_code,
        headers=response.headers,
        stream=response.stream,
        request=response.request,
    )
    response.stream = _Repaired(received, is_stream=kind == _EVENTS)
    # The body is now decompressed, UTF-8, and perhaps of another length.
    for name in ("content-encoding", "content-length"):
        response.headers.pop(name, None)
    response.headers["content-type"] = _EVENTS if kind == _EVENTS else _JSON


class _Repaired(httpx2.AsyncByteStream):
    """The body of a response, decoded, with valid JSON."""

    def __init__(self, received: httpx2.Response, *, is_stream: bool) -> None:
        self._received = received
        # The answer to the request if no message that can be read follows.
        self._lost = b""
        self._chunks = self._events if is_stream else self._whole

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async with aclosing(self._chunks()) as chunks:
            async for chunk in chunks:
                yield chunk

    async def aclose(self) -> None:
        await self._received.aclose()

    async def _whole(self) -> AsyncGenerator[bytes]:
        body = await self._received.aread()
        yield self._repaired(body) or self._lost

    async def _events(self) -> AsyncGenerator[bytes]:
        async for event in httpx2.EventSource(self._received, max_event_size=None):
            fields = [("event", event.event), ("id", event.id)]
            if event.retry is not None:
                fields.append(("retry", str(event.retry)))
            data = event.data
            if data and event.event == "message":
                data = self._repaired(data.encode(errors="replace")).decode()
            fields += [("data", line) for line in data.split("\n")]
            yield "".join((*(f"{name}: {value}\n" for name, value in fields), "\n")).encode()
        if self._lost:
            # The answer might have followed an event that cannot be read; it is ignored if it has.
            yield b"event: message\ndata: " + self._lost + b"\n\n"

    def _repaired(self, body: bytes) -> bytes:
        """Return a message that the library can read, unchanged if it is valid; else nothing."""
        with suppress(ValueError):
            jsonrpc_message_adapter.validate_json(body, by_name=False)
            return body
        # Only a request's own answer is certain to belong to it.
        request_id = _request_id(self._received.request)
        message = read_message(body, request_id)
        if isinstance(message, str):
            if request_id is not None:
                self._lost = _as_bytes(Answer(lost=message or "it is empty").message(request_id))
            return b""
        return _as_bytes(message)


def _as_bytes(message: SessionMessage) -> bytes:
    return message.message.model_dump_json(by_alias=True, exclude_unset=True).encode()


def _request_id(request: httpx2.Request) -> RequestId | None:
    try:
        sent: JsonValue = json.loads(request.content)
    except (httpx2.StreamError, ValueError):
        return None
    found = sent.get("id") if isinstance(sent, dict) else None
    return found if isinstance(found, str | int) else None
