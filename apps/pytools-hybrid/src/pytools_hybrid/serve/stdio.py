"""MCP over stdin and stdout, with an answer to every line that may be a request.

The SDK's transport ignores lines that it cannot parse, and their client would wait in vain. It also
changes threads three times for each message; here, one thread reads and another one writes.
"""

from __future__ import annotations

import asyncio
import math
import os
import sys
from contextlib import asynccontextmanager, contextmanager, suppress
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from types import TracebackType

    from mcp.shared._stream_protocols import ReadStream, WriteStream
    from pydantic import JsonValue

_BYTE_ORDER_MARK = "\ufeff"
_ID_CHARACTERS = 1000


@asynccontextmanager
async def stdio_streams() -> AsyncGenerator[
    tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]
]:
    """Open streams over stdin and stdout, and answer invalid lines.

    While they are open, all other code reads an empty stdin, and its output goes to stderr.

    Raises:
        OSError: stdout was closed.
    """
    loop = asyncio.get_running_loop()
    received, messages = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)

    def receive(line: bytes) -> None:
        # Some clients send a byte-order mark first.
        text = line.decode("utf-8", "replace").removeprefix(_BYTE_ORDER_MARK)
        if not line:
            received.close()
        elif not text.isspace():
            message, problem = read_message(text)
            # Nobody receives while the server ends.
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                if problem is not None:
                    written.put(problem)
                elif message is not None:
                    received.send_nowait(SessionMessage(message))

    def read(stdin: int) -> None:
        # The descriptor stays open, because this thread may wait for a line until the process ends.
        # The loop may end before, which is a RuntimeError.
        with suppress(OSError), open(stdin, "rb", closefd=False) as lines, suppress(RuntimeError):
            while line := lines.readline():
                loop.call_soon_threadsafe(receive, line)
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(receive, b"")

    with (
        _claimed(sys.stdin.fileno(), os.open(os.devnull, os.O_RDONLY)) as stdin,
        _claimed(sys.stdout.fileno(), _stderr()) as stdout,
    ):
        written = _WrittenMessages(stdout, lambda: loop.call_soon_threadsafe(received.close))
        Thread(target=read, args=(stdin,), name="stdin", daemon=True).start()
        yield messages, written
        if written.error is not None:
            raise written.error


class _WrittenMessages:
    """Writes messages in a thread, in order.

    Args:
        file: The descriptor to write to.
        on_error: Called in that thread when writing fails.
    """

    def __init__(self, file: int, on_error: Callable[[], object]) -> None:
        self.error: OSError | None = None
        self._contents = SimpleQueue[bytes]()
        self._thread = Thread(target=self._write, args=(file, on_error), name="stdout", daemon=True)
        self._thread.start()

    def put(self, message: JSONRPCMessage) -> None:
        """Write a message soon."""
        line = message.model_dump_json(by_alias=True, exclude_unset=True)
        self._contents.put(line.encode() + b"\n")

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message soon; what it needs until then does not wait for a slow reader."""
        if self.error is not None:
            raise anyio.BrokenResourceError
        self.put(item.message)

    async def aclose(self) -> None:
        """Wait until everything is written."""
        self._contents.put(b"")
        await asyncio.to_thread(self._thread.join)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()

    def _write(self, file: int, on_error: Callable[[], object]) -> None:
        try:
            while content := memoryview(self._contents.get()):
                while content:
                    content = content[os.write(file, content) :]
        except OSError as error:
            self.error = error
            # The loop may have ended.
            with suppress(RuntimeError):
                on_error()


@contextmanager
def _claimed(shared: int, replacement: int) -> Generator[int]:
    """Yield a private duplicate of a descriptor, which is replaced for all other code."""
    private = os.dup(shared)
    _replace(shared, replacement)
    os.close(replacement)
    try:
        yield private
    finally:
        _replace(shared, private)


def _stderr() -> int:
    try:
        return os.dup(2)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


def _replace(descriptor: int, by: int) -> None:
    os.dup2(by, descriptor)
    if sys.platform == "win32":
        from mcp.os.win32.utilities import rebind_std_handle_to_fd

        rebind_std_handle_to_fd(descriptor)


def read_message(line: str) -> tuple[JSONRPCMessage | None, JSONRPCError | None]:
    """Parse a line; return a message, or the answer to an invalid request.

    Invalid notifications and responses get no answer.
    """
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        message = None
        code, why = _described(error)
    else:
        if isinstance(message, JSONRPCRequest):
            return message, None
        # The SDK treats a request with an invalid id as a notification.
        code, why = INVALID_REQUEST, "Invalid request: the id must be a string or an integer"
    from toolimport.lenient_json import read_leniently

    given: JsonValue = None
    request_id: RequestId | None = None
    with suppress(ValueError):
        given = read_leniently(line)
    if isinstance(given, dict):
        is_notification = isinstance(given.get("method"), str) and "id" not in given
        is_response = "method" not in given and not given.keys().isdisjoint({"result", "error"})
        if is_notification or is_response:
            return message, None
        request_id = _usable_id(given.get("id"))
    return None, JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=why))


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
