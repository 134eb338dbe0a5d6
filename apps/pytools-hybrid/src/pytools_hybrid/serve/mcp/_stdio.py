"""MCP over stdin and stdout, with an answer to every line that may be a request.

The SDK ignores lines that it cannot parse, and their client would wait in vain. So each line is
checked before the SDK reads it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, TextIO

import anyio
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCRequest,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from toolimport.lenient_json import read_leniently

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from mcp.shared._stream_protocols import ReadStream, WriteStream
    from pydantic import JsonValue

_BYTE_ORDER_MARK = "\ufeff"
_ID_CHARACTERS = 1000


@asynccontextmanager
async def stdio_streams() -> AsyncGenerator[
    tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]
]:
    """Open the SDK's streams over stdin and stdout, and answer lines that it would ignore.

    While they are open, all other code reads an empty stdin, and its output goes to stderr.
    """
    writing: asyncio.Future[WriteStream[SessionMessage]]
    writing = asyncio.get_running_loop().create_future()

    async def answer(problem: JSONRPCError) -> None:
        stream = await writing
        # The client may have disconnected.
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            await stream.send(SessionMessage(problem))

    lines = _CheckedLines(_private_stdin(), answer)
    async with stdio_server(stdin=lines) as (read, write):
        writing.set_result(write)
        yield read, write


def problem_of(line: str) -> JSONRPCError | None:
    """Return the answer to a line that the SDK would ignore, or None if the line is valid.

    Invalid notifications and responses get no answer.
    """
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        code, why = _described(error)
    else:
        if isinstance(message, JSONRPCRequest):
            return None
        # The SDK treats a request with an invalid id as a notification.
        code, why = INVALID_REQUEST, "Invalid request: the id must be a string or an integer"
    given: JsonValue = None
    request_id: RequestId | None = None
    with suppress(ValueError):
        given = read_leniently(line)
    if isinstance(given, dict):
        is_notification = isinstance(given.get("method"), str) and "id" not in given
        is_response = "method" not in given and not given.keys().isdisjoint({"result", "error"})
        if is_notification or is_response:
            return None
        request_id = _usable_id(given.get("id"))
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=why))


def _described(error: ValidationError) -> tuple[int, str]:
    first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] != "json_invalid":
        return INVALID_REQUEST, "Invalid request: a line must be one object of JSON-RPC 2.0"
    why = str(first.get("ctx", {}).get("error", first["msg"]))
    if "hex escape" in why:
        why += "; it may be half of a surrogate pair, for example of an emoji that was cut in two"
    return PARSE_ERROR, f"Parse error: {why}"


def _usable_id(given: JsonValue) -> RequestId | None:
    if isinstance(given, str):
        # It replaces lone surrogates, and integers that are too long for Python become text.
        is_changed = "\ufffd" in given or len(given) > _ID_CHARACTERS
        return None if is_changed else given
    return given if isinstance(given, int) and not isinstance(given, bool) else None


class _CheckedLines(anyio.AsyncFile[str]):
    """Reads a client's valid lines; invalid ones are answered and skipped."""

    def __init__(self, lines: TextIO, answer: Callable[[JSONRPCError], Awaitable[object]]) -> None:
        super().__init__(lines)
        self._answer = answer

    async def readline(self) -> str:
        """Read the next valid line; "" at the end."""
        while line := await super().readline():
            # Some clients send a byte-order mark first.
            message = line.removeprefix(_BYTE_ORDER_MARK)
            if message.isspace():
                continue
            if (problem := problem_of(message)) is None:
                return message
            await self._answer(problem)
        return ""


def _private_stdin() -> TextIO:
    """Replace stdin for all other code: a child process must not read the client's lines."""
    shared = sys.stdin.fileno()
    private = os.dup(shared)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, shared)
    os.close(null)
    # The descriptor stays open, because a thread may still be waiting for a line.
    return open(private, encoding="utf-8", errors="replace", newline="\n", closefd=False)
