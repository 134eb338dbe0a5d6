"""The messages of a server that is a process.

Not the library's transport: that one scans a line from its beginning whenever 64 KiB arrive, so
that a line of 64 MiB takes minutes, and it logs what it cannot read.
"""

from __future__ import annotations

import logging
import re
import sys
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO, cast

import anyio
from anyio.abc import Process
from mcp.client.stdio import get_default_environment

from toolimport._connect._messages import Answer, read_message

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from anyio.abc import ByteReceiveStream, ByteSendStream
    from mcp.client._transport import TransportStreams
    from mcp.os.win32.utilities import FallbackProcess
    from mcp.shared.message import SessionMessage

    from toolimport._connect._messages import Repairs
    from toolimport.clients._servers import StdioParameters

    ServerProcess = Process | FallbackProcess

LONGEST_LINE = 64 << 20
"""The maximum length of a message, in bytes; longer ones are discarded."""

_log = logging.getLogger("toolimport")

# To exit after its stdin is closed; to exit after a signal; to be gone after it was killed.
_EXIT_SECONDS = 2.0
_TERMINATE_SECONDS = 2.0
_KILL_SECONDS = 2.0
_FLUSH_SECONDS = 0.5
_POLL_SECONDS = 0.01

_LOOKED_AT = 1000
_FEW_LINES = 16
# A call's simultaneous progress reports but the last are not passed on anyway.
_REPORTS = 256
_TOKEN = re.compile(rb'"progressToken"\s*:\s*("[^"]*"|\d+)')
_REPORT = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?'
    rb'"method"\s*:\s*"notifications/(?P<kind>progress|message)"'
)
# The members of an object can be in any order, and nested objects may have an id too.
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"'
_FIRST = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb'\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,')
_LAST = re.compile(rb',\s*"id"\s*:\s*(\d{1,15})\s*(?:,\s*' + _VERSION + rb"\s*)?\}\s*$")

_GONE = (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError)
_CLOSED = (*_GONE, anyio.EndOfStream)


@asynccontextmanager
async def process_streams(
    parameters: StdioParameters, errors: TextIO, repairs: Repairs
) -> AsyncGenerator[TransportStreams]:
    """Start a server, and stop it with everything that it has started after the block.

    `errors` becomes its stderr, and is then closed. `repairs` receives why a line was no message.
    """
    try:
        process = await _started(parameters, errors)
    finally:
        # The process has its own copy; if this one stayed open, reading would never end.
        errors.close()
    # Nothing is awaited until the process is certain to be stopped.
    received, read = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
    write, to_send = anyio.create_memory_object_stream["SessionMessage"](0)
    is_sent = anyio.Event()

    stdin, stdout = cast("ByteSendStream", process.stdin), cast("ByteReceiveStream", process.stdout)

    async def receive() -> None:
        async with received:
            with suppress(*_CLOSED):
                async for message in _messages(stdout, repairs):
                    await received.send(message)
        # A server that cannot write does not exit.
        with anyio.CancelScope(shield=True), suppress(*_CLOSED):
            while True:
                await stdout.receive()

    async def send() -> None:
        try:
            async with to_send:
                async for item in to_send:
                    text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await stdin.send(text.encode(errors="replace") + b"\n")
        except _GONE:
            # It may still be running, but will never answer.
            await received.aclose()
        finally:
            is_sent.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive)
        tasks.start_soon(send)
        try:
            yield read, write
        finally:
            with anyio.CancelScope(shield=True):
                # Closed first, because a server that is writing may not read what is sent.
                read.close()
                write.close()
                with anyio.move_on_after(_FLUSH_SECONDS):
                    await is_sent.wait()
                await _stop(process, stdin, stdout)
                received.close()
                to_send.close()
            tasks.cancel_scope.cancel()


async def _started(parameters: StdioParameters, errors: TextIO) -> ServerProcess:

    command, arguments = parameters.command, list(parameters.args)
    environment = get_default_environment() | dict(parameters.env)
    if sys.platform == "win32":
        from mcp.os.win32.utilities import create_windows_process

        return await create_windows_process(command, arguments, environment, errors, parameters.cwd)
    return await anyio.open_process(
        [command, *arguments],
        env=environment,
        stderr=errors,
        cwd=parameters.cwd,
        # With its own group, everything that it starts can be stopped with it.
        start_new_session=True,
    )


async def _stop(process: ServerProcess, stdin: ByteSendStream, stdout: ByteReceiveStream) -> None:
    """Ask a server to exit by closing its stdin; kill it and its children if it does not."""
    with suppress(*_GONE):
        await stdin.aclose()
    if not await _has_ended(process, _EXIT_SECONDS):
        if sys.platform == "win32":
            from mcp.os.win32.utilities import terminate_windows_process_tree

            await terminate_windows_process_tree(process)
        elif isinstance(process, Process):
            from mcp.os.posix.utilities import terminate_posix_process_tree

            await terminate_posix_process_tree(process, _TERMINATE_SECONDS)
        if not await _has_ended(process, _KILL_SECONDS):
            _log.warning("the server's process %d cannot be killed", process.pid)
    if sys.platform == "win32":
        from mcp.os.win32.utilities import close_process_job

        close_process_job(process)
    with suppress(*_GONE):
        await stdout.aclose()
    # A child that outlives the server may hold its pipes, for which asyncio would wait.
    transport: Any = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        with suppress(PermissionError):
            transport.close()


async def _has_ended(process: ServerProcess, seconds: float) -> bool:
    # Not `wait`, which also waits for children that hold its pipes.
    with anyio.move_on_after(seconds):
        while process.returncode is None:
            await anyio.sleep(_POLL_SECONDS)
    return process.returncode is not None


async def _messages(stream: ByteReceiveStream, repairs: Repairs) -> AsyncGenerator[SessionMessage]:
    line = _Line()
    async for chunk in stream:
        first, *others = chunk.split(b"\n")
        line.add(first)
        if not others:
            continue
        messages = [line.message()]
        line = _Line()
        line.add(others.pop())
        messages += [_message(it) for it in _without_floods(others)]
        for message in messages:
            if not isinstance(message, str):
                yield message
            elif message:
                repairs.garbled = message


class _Line:
    """A line that is being received; of one that is too long only its ends are kept."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._length = 0

    def add(self, piece: bytes) -> None:
        """Add the next part."""
        self._pieces.append(piece)
        self._length += len(piece)
        if self._length > LONGEST_LINE:
            whole = b"".join(self._pieces)
            self._pieces = [whole[:_LOOKED_AT], whole[-_LOOKED_AT:]]

    def message(self) -> SessionMessage | str:
        """Return the message, or the reason why there is none."""
        if self._length <= LONGEST_LINE:
            return _message(b"".join(self._pieces))
        begin, end = self._pieces
        return _lost(begin, end, f"it is longer than {LONGEST_LINE >> 20} MiB")


def _message(line: bytes) -> SessionMessage | str:
    message = read_message(line)
    if not message or not isinstance(message, str) or b'"method"' in line:
        return message
    return _lost(line[:_LOOKED_AT], line[-_LOOKED_AT:], message)


def _lost(begin: bytes, end: bytes, why: str) -> SessionMessage | str:
    """Return the answer that a line seems to be, so that its call need not wait for it."""
    found = _FIRST.match(begin) or _LAST.search(end)
    return Answer(lost=why).message(int(found[1])) if found else why


def _without_floods(lines: list[bytes]) -> list[bytes]:
    """Keep the last log messages, and the last of each call's progress reports, of many at once.

    If there are more than 256 calls, the reports of the others are dropped too.
    """
    if len(lines) <= _FEW_LINES:
        return lines
    reports = {number: found for number, it in enumerate(lines) if (found := _REPORT.match(it))}
    logged = [number for number, found in reports.items() if found["kind"] == b"message"]
    tokens = ((_TOKEN.search(lines[number]), number) for number in reports)
    last = {found[1]: number for found, number in tokens if found}
    kept = {*logged[-_REPORTS:], *sorted(last.values())[-_REPORTS:]}
    return [it for number, it in enumerate(lines) if number not in reports or number in kept]
