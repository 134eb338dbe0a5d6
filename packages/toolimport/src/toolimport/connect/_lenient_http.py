"""Repairing HTTP answers with invalid JSON before the library reads them.

Afterwards is too late, because the library does not keep the text of an answer that it cannot read.
"""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import TYPE_CHECKING

import httpx2
from pydantic_core import from_json

from toolimport.lenient_json import read_leniently, without_half_characters

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

_JSON, _EVENTS = "application/json", "text/event-stream"


async def repair_response(response: httpx2.Response) -> None:
    """Repair a response's messages as they are read; an event hook for `httpx2.AsyncClient`."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not response.is_success or kind not in {_JSON, _EVENTS}:
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
    response.headers["content-type"] = kind


class _Repaired(httpx2.AsyncByteStream):
    """The body of a response, decoded, with valid JSON."""

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
            data = _repaired(event.data.encode()).decode() if event.data else ""
            fields += [("data", line) for line in data.split("\n")]
            yield "".join((*(f"{name}: {value}\n" for name, value in fields), "\n")).encode()


def _repaired(body: bytes) -> bytes:
    """Return JSON that strict parsers accept; unchanged if it is valid, or beyond repair."""
    try:
        from_json(body)
    except ValueError:
        try:
            read = read_leniently(body.decode(errors="replace"))
        except ValueError:
            return body
        return json.dumps(without_half_characters(read)).encode()
    return body
