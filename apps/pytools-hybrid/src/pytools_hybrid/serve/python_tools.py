"""Calling Python tools, each call in a process of its own: JSON in, JSON out, its group killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from mcp.types import CallToolResult, TextContent
from toolimport.runtime import ImportedTool, ToolRunner

from pytools_hybrid.search import module_name
from pytools_hybrid.text import readable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolscan import ToolRecord

_MAIN = Path(__file__).with_name("python_main.py")
_SHOWN_OUTPUT = 4000
_LARGEST_ANSWER = 1 << 20
# What a tool may take to end after its answer, for example to join its threads.
_EXIT_SECONDS = 1.0
# A process that has left the group may keep the pipes open.
_CLOSE_SECONDS = 0.5
_DEEPEST = 100

_running: set[_WorkerProcess] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonTool:
    """A Python tool.

    Attributes:
        python: The interpreter; None for the current one.
        memory: The memory limit of each of its processes, in MiB.
        slots: Limits how many calls run at once.
    """

    root: Path
    record: ToolRecord
    input_schema: Mapping[str, Any]
    python: Path | None
    memory: int
    slots: asyncio.Semaphore

    def problems(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """Return what is wrong with some arguments, in at most two sentences."""
        return ImportedTool.argument_problems(self.input_schema, arguments)

    async def call(self, arguments: Mapping[str, Any], **_client: object) -> CallToolResult:
        """Run the tool, which gets no metadata and cannot ask questions."""
        python = str(self.python or sys.executable)
        root = self.root.resolve()
        call = {
            "root": str(root),
            "module": module_name(Path(self.record.path)),
            "file": str(root / self.record.path),
            "function": self.record.entrypoint,
            "params_class": self.record.params_class,
            "arguments": dict(arguments),
            "memory": self.memory << 20,
        }
        try:
            async with self.slots:
                return _answer(await _run(call, python))
        except ValueError as error:
            return _failed(str(error))
        except OSError as error:
            return _failed(f"{python} cannot be started: {error.strerror or error}")


class _RunResult(NamedTuple):
    """The result of running a tool.

    Attributes:
        answer: Its `result`, the `begin` and `length` of one that is too long, or an `error`.
        output: The end of what it printed.
    """

    answer: Mapping[str, Any]
    output: str


def end_processes() -> None:
    """Kill the processes of all tools that are running."""
    for process in tuple(_running):
        process.kill()


async def _run(call: Mapping[str, Any], python: str) -> _RunResult:
    """Run `python_main` in a new process; afterwards its process group is killed."""
    seconds = ToolRunner.call_seconds()
    transport, process = await asyncio.get_running_loop().subprocess_exec(
        _WorkerProcess,
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
    return _RunResult({"error": error} if error else process.result(), process.output)


async def _happens(event: asyncio.Event, seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            return await event.wait()
    return False


def _is_secret(name: str, value: str) -> bool:
    """Return whether a variable has a secret of this server, which tools should not get."""
    return name == "PYTOOLS_TOKEN" or (name == "PYTOOLS_DATABASE" and "://" in value)


class _WorkerProcess(asyncio.SubprocessProtocol):
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
            how = f"exit code {code}"
            if code < 0:
                with suppress(ValueError):
                    how = signal.Signals(-code).name
            return {"error": f"its process ended ({how})"}
        try:
            return json.loads(self._answer[:_LARGEST_ANSWER])
        except (ValueError, RecursionError):
            return {"error": "its result cannot be read"}


def _failed(text: str, *outputs: TextContent) -> CallToolResult:
    failure = TextContent(type="text", text=readable(text))
    return CallToolResult(content=[failure, *outputs], is_error=True)


def _answer(ran: _RunResult) -> CallToolResult:
    output = readable(ran.output)
    outputs = [TextContent(type="text", text=f"[output]\n{output}")] if output.strip() else []
    if "error" in ran.answer:
        return _failed(str(ran.answer["error"]), *outputs)
    if "begin" in ran.answer:
        begin, length = str(ran.answer["begin"]), int(ran.answer["length"])
        cut = f"[cut: {len(begin):,} of {length:,} characters; ask for less]"
        text = TextContent(type="text", text=f"{readable(_sendable(begin))}\n{cut}")
        return CallToolResult(content=[text, *outputs])
    result = ran.answer.get("result")
    whole = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    sendable = _sendable(whole)
    text = TextContent(type="text", text=readable(sendable))
    # No protocol can carry lone surrogates, or values nested too deeply.
    fits = sendable == whole and not _is_deep(result)
    structured = {"result": result} if fits else None
    return CallToolResult(content=[text, *outputs], structured_content=structured)


def _sendable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        inner = [cast("dict[str, object]", it).values() for it in level if isinstance(it, dict)]
        items = [cast("list[object]", it) for it in level if isinstance(it, list)]
        level = [it for several in (*inner, *items) for it in several]
    return bool(level)
