"""HTTP requests to a server, and repairing its answers before the library reads them.

Afterwards is too late: the library does not keep the text of an answer that it cannot read.
"""

from __future__ import annotations

from contextlib import aclosing, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx2
from mcp.types import jsonrpc_message_adapter

from toolimport._connect._messages import read_message

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

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
    """The body of a response, decoded; the library answers for what is still unreadable."""

    def __init__(self, received: httpx2.Response, *, is_stream: bool) -> None:
        self._received = received
        self._chunks = self._events if is_stream else self._whole

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async with aclosing(self._chunks()) as chunks:
            async for chunk in chunks:
                yield chunk

    async def aclose(self) -> None:
        await self._received.aclose()

    async def _whole(self) -> AsyncGenerator[bytes]:
        yield _repaired(await self._received.aread())

    async def _events(self) -> AsyncGenerator[bytes]:
        async for event in httpx2.EventSource(self._received, max_event_size=None):
            fields = [("event", event.event), ("id", event.id)]
            if event.retry is not None:
                fields.append(("retry", str(event.retry)))
            data = event.data
            if data and event.event == "message":
                data = _repaired(data.encode(errors="replace")).decode(errors="replace")
            fields += [("data", line) for line in data.split("\n")]
            yield "".join((*(f"{name}: {value}\n" for name, value in fields), "\n")).encode()


def _repaired(body: bytes) -> bytes:
    """Return a message that the library can read, unchanged if it is valid or unreadable."""
    with suppress(ValueError):
        jsonrpc_message_adapter.validate_json(body, by_name=False)
        return body
    message = read_message(body)
    if isinstance(message, str):
        return body
    return message.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
