"""Running a Python tool in a process of its own: JSON in, JSON out, its group killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAIN = Path(__file__).with_name("_process_main.py")
_SHOWN_OUTPUT = 4000
_LARGEST_ANSWER = 1 << 20
# What a tool may take to end after its answer, for example to join its threads.
_EXIT_SECONDS = 1.0
# A process that has left the group may keep the pipes open.
_CLOSE_SECONDS = 0.5

_running: set[ToolProcess] = set()


class RunResult(NamedTuple):
    """The result of running a tool.

    Attributes:
        answer: Its `result`, the `begin` and `length` of one that is too long, or an `error`.
        output: The end of what it printed.
    """

    answer: Mapping[str, Any]
    output: str


async def run_tool(call: Mapping[str, Any], *, python: str, seconds: float) -> RunResult:
    """Run a tool in a new process; afterwards its process group is killed.

    Args:
        call: What `_process_main` reads.
        python: The interpreter.
        seconds: The time limit.

    Raises:
        OSError: The process cannot be started.
    """
    loop = asyncio.get_running_loop()
    transport, process = await loop.subprocess_exec(
        ToolProcess,
        *(python, str(_MAIN)),
        # In its own process group, which can be killed as a whole.
        start_new_session=sys.platform != "win32",
        env={name: it for name, it in os.environ.items() if not _is_secret(name, it)},
    )
    error = ""
    _running.add(process)
    try:
        stdin: Any = transport.get_pipe_transport(0)
        stdin.write(json.dumps(call).encode())
        stdin.close()
        if not await _happens(process.finished, seconds):
            error = f"no result within {seconds:g} s; its process was killed"
        elif process.is_answered:
            await _happens(process.exited, _EXIT_SECONDS)
        process.kill()
        await _happens(process.closed, _CLOSE_SECONDS)
    finally:
        process.kill()
        transport.close()
    return RunResult({"error": error} if error else process.result(), process.output)


def end_processes() -> None:
    """Kill the processes of all tools that are running."""
    for process in tuple(_running):
        process.kill()


class ToolProcess(asyncio.SubprocessProtocol):
    """A process, its answer, and the end of what it prints."""

    def __init__(self) -> None:
        self.finished, self.exited, self.closed = (asyncio.Event() for _ in range(3))
        self._transport: Any = None
        self._answer = bytearray()
        self._printed = bytearray()
        self._count = 0

    @property
    def is_answered(self) -> bool:
        return self._answer.endswith(b"\n") or len(self._answer) > _LARGEST_ANSWER

    @property
    def output(self) -> str:
        text = self._printed.decode("utf-8", "replace")
        cut = self._count > _SHOWN_OUTPUT
        return f"[the last of {self._count:,} bytes]\n{text}" if cut else text

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1 and not self.is_answered:
            self._answer += data
            if self.is_answered:
                self.finished.set()
        elif fd == 2:  # stderr
            self._count += len(data)
            self._printed += data
            del self._printed[:-_SHOWN_OUTPUT]

    def process_exited(self) -> None:
        self.finished.set()
        self.exited.set()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.closed.set()

    def kill(self) -> None:
        """Kill the process and its group; the group even if the process has ended by itself."""
        if self not in _running:
            return
        _running.discard(self)
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._transport.kill()
            else:
                os.killpg(self._transport.get_pid(), signal.SIGKILL)

    def result(self) -> Mapping[str, Any]:
        """Return the answer, or an error in its place."""
        if not self._answer and self.exited.is_set():
            code = self._transport.get_returncode()
            return {"error": f"its process ended ({_exit(code)})"}
        try:
            return json.loads(self._answer[:_LARGEST_ANSWER])
        except (ValueError, RecursionError):
            return {"error": "its result cannot be read"}


async def _happens(event: asyncio.Event, seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            return await event.wait()
    return False


def _exit(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _is_secret(name: str, value: str) -> bool:
    """Return whether a variable has a secret of this server, which tools should not get."""
    return name == "PYTOOLS_TOKEN" or (name == "PYTOOLS_DATABASE" and "://" in value)
