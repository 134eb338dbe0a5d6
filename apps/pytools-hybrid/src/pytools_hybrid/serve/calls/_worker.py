"""A separate process for the Python tools of a tree, where a crash does no harm."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytools_hybrid.serve.calls._children import end_children

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAIN = Path(__file__).with_name("_worker_main.py")
_CAPTURED = 4000
_KEPT_ANSWERS = 32
_LARGEST_ANSWER = 1 << 20
_KEPT_BYTES = 128 << 20
_WHOLE = ".whole.json"
_WAITING = 256
_LOOK_SECONDS = 0.1
_LAST_SECONDS = 1.0
_END_SECONDS = 5.0
_UNSTABLE = "its files keep changing"
_BUSY = f"not run: {_WAITING} other calls are waiting for their turn; try again later"
_UNREADABLE = "its result cannot be read"
_CLOSED = "it closed its output, so its process had to be killed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The result of running a tool.

    Attributes:
        result: Its return value, as JSON values.
        error: Why it returned nothing; empty if it did return.
        stdout: The end of what it printed.
        stderr: The end of what it printed to stderr.
        file: The file with the whole answer, if that is too long to send; it is deleted with the
            worker, or when later files need its space.
        begin: The beginning of that answer.
        length: How many characters it has.
    """

    result: Any = None
    error: str = ""
    stdout: str = ""
    stderr: str = ""
    file: Path | None = None
    begin: str = ""
    length: int = 0


class PythonWorker:
    """Runs the tools of one root, one at a time, in a process that is started at the first call.

    Args:
        root: The root, which tools can import from.
        memory: The memory limit of the process in bytes; not on Windows.
    """

    def __init__(self, root: Path, *, python: str, memory: int) -> None:
        self._root = root
        self._python = python
        self._memory = memory
        self._turn = asyncio.Lock()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._running: _Running | None = None
        self._number = 0
        self._waiting = 0

    async def run(
        self, call: Mapping[str, Any], *, seconds: float, keeps_whole: bool = True
    ) -> Ran:
        """Run a tool; the process is killed if that takes too long.

        Args:
            call: `module`, `file`, `function`, `params_class` and `arguments`.
            seconds: The time limit, from when its turn comes.
            keeps_whole: Whether to write an answer that is too long to send to a file.

        Raises:
            OSError: The process cannot be started.
        """
        if self._waiting >= _WAITING:
            return Ran(error=_BUSY)
        self._waiting += 1
        try:
            await self._turn.acquire()
        finally:
            self._waiting -= 1
        try:
            ran = await self._run(call, seconds, keeps_whole)
            # The process noticed that a file had changed, so the tool was not called.
            if ran is None:
                ran = await self._run(call, seconds, keeps_whole)
            return ran or Ran(error=_UNSTABLE)
        finally:
            self._turn.release()

    async def _run(self, call: Mapping[str, Any], seconds: float, keeps_whole: bool) -> Ran | None:
        if self._running is None or not self._running.is_alive:
            await self.close()
            self._folder = tempfile.TemporaryDirectory(prefix="pytools-")
            self._running = await _Running.start(self._python, self._root, self._memory)
        running = self._running
        answer = self._next_answer()
        room = _KEPT_BYTES if keeps_whole else 0
        files = {"answer": str(answer), "whole": str(_whole(answer)), "room": room}
        try:
            async with asyncio.timeout(seconds):
                await running.ask({**call, **files})
        except TimeoutError:
            await self._end()
            return running.ran(error=f"no result within {seconds:g} s; its process was killed")
        except asyncio.CancelledError:
            # Nobody is waiting for its answer any more, but the next call would have to wait.
            await self._end()
            raise
        if not running.is_alive:
            code = await running.ended()
            await running.kill()
            self._running = None
            if _is_stale(answer):
                return None
            return running.ran(
                error=_CLOSED if code is None else f"its process ended ({_exit(code)})"
            )
        return await asyncio.to_thread(_read, answer, running)

    async def close(self) -> None:
        """Kill the process with its children, and remove its answers."""
        await self._end()
        if self._folder is not None:
            folder, self._folder = self._folder, None
            with suppress(OSError):
                folder.cleanup()

    async def _end(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            await running.kill()

    def _next_answer(self) -> Path:
        self._number += 1
        folder = Path(self._folder.name if self._folder else tempfile.gettempdir())
        old = folder / f"{self._number - _KEPT_ANSWERS}.json"
        for file in (old, _whole(old)):
            file.unlink(missing_ok=True)
        return folder / f"{self._number}.json"


class _Printed:
    """Collects what a process prints to one stream, up to the end of an answer."""

    def __init__(self, stream: asyncio.StreamReader, end: bytes) -> None:
        self._stream = stream
        self._end = end
        self._tail = b""
        self._kept = bytearray()
        self._count = 0
        self.ended = asyncio.Event()
        self.reader = asyncio.create_task(self._read())

    @property
    def text(self) -> str:
        text = self._kept.decode("utf-8", "replace")
        return f"[the last of {self._count:,} bytes]\n{text}" if self._count > _CAPTURED else text

    def begin(self) -> None:
        """Discard what was printed: the rest belongs to the next answer."""
        self._kept.clear()
        self._count = 0
        if not self.reader.done():
            self.ended.clear()

    async def _read(self) -> None:
        try:
            while chunk := await self._stream.read(1 << 16):
                text = self._tail + chunk
                printed, found, self._tail = text.partition(self._end)
                if not found:
                    # The end marker may begin in the last bytes.
                    kept = len(text) - min(len(text), len(self._end) - 1)
                    printed, self._tail = text[:kept], text[kept:]
                self._count += len(printed)
                self._kept += printed
                del self._kept[:-_CAPTURED]
                if found:
                    self.ended.set()
        finally:
            self.ended.set()


class _Running:
    """A running process and its output."""

    def __init__(self, process: asyncio.subprocess.Process, end: bytes) -> None:
        self._process = process
        streams = {"stdout": process.stdout, "stderr": process.stderr}
        self._printed = {name: _Printed(it, end) for name, it in streams.items() if it is not None}

    @classmethod
    async def start(cls, python: str, root: Path, memory: int) -> _Running:
        end = secrets.token_hex(16)
        process = await asyncio.create_subprocess_exec(
            *(python, str(_MAIN), str(root.resolve()), end, str(memory)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # In its own process group, which can be killed as a whole.
            start_new_session=sys.platform != "win32",
            env={name: it for name, it in os.environ.items() if not _is_ours(name, it)},
        )
        return cls(process, end.encode())

    @property
    def is_alive(self) -> bool:
        open_ = not any(printed.reader.done() for printed in self._printed.values())
        return open_ and self._process.returncode is None

    async def ask(self, call: Mapping[str, Any]) -> None:
        """Send a call, and wait until it is answered or the process ends."""
        for printed in self._printed.values():
            printed.begin()
        if self._process.stdin is not None:
            with suppress(ConnectionError):
                self._process.stdin.write(json.dumps(call).encode() + b"\n")
                await self._process.stdin.drain()
        waiting = {asyncio.create_task(it.ended.wait()) for it in self._printed.values()}
        try:
            # Its children may keep the streams open after it has ended.
            while waiting and self.is_alive:
                _, waiting = await asyncio.wait(waiting, timeout=_LOOK_SECONDS)
        finally:
            for task in waiting:
                task.cancel()

    async def ended(self) -> int | None:
        """Return the exit code of a process that has closed its streams; None if it still runs."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_SECONDS):
                return await self._process.wait()
        return None

    async def kill(self) -> None:
        """Kill the process, its children and its group."""
        if self._process.returncode is None:
            end_children(self._process.pid)
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._process.kill()
            else:
                # Even if it has ended by itself, because its children may not have.
                os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await self._process.wait()
        for printed in self._printed.values():
            printed.reader.cancel()
        readers = (printed.reader for printed in self._printed.values())
        await asyncio.gather(*readers, return_exceptions=True)

    def ran(self, **values: Any) -> Ran:  # noqa: ANN401
        printed = {name: it.text for name, it in self._printed.items()}
        return Ran(stdout=printed.get("stdout", ""), stderr=printed.get("stderr", ""), **values)


def _read(answer: Path, running: _Running) -> Ran:
    try:
        if answer.stat().st_size > _LARGEST_ANSWER:
            return running.ran(error=_UNREADABLE)
        found = json.loads(answer.read_text("utf-8"))
        if "error" in found:
            return running.ran(error=str(found["error"]))
        if "begin" in found:
            begin, length = str(found["begin"]), int(found["length"])
            whole = _whole(answer)
            _make_room(whole)
            return running.ran(begin=begin, length=length, file=whole if whole.exists() else None)
        return running.ran(result=found["result"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return running.ran(error=_UNREADABLE)


def _make_room(newest: Path) -> None:
    """Delete the oldest whole answers in a file's folder until all of them fit."""
    files = sorted(newest.parent.glob(f"*{_WHOLE}"), key=lambda it: int(it.name.partition(".")[0]))
    sizes = {file: file.stat().st_size for file in files}
    total = sum(sizes.values())
    for file, size in sizes.items():
        if total <= _KEPT_BYTES:
            return
        file.unlink()
        total -= size


def _whole(answer: Path) -> Path:
    return answer.with_suffix(_WHOLE)


def _is_stale(answer: Path) -> bool:
    try:
        return "stale" in json.loads(answer.read_text("utf-8"))
    except (OSError, ValueError, TypeError):
        return False


def _exit(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _is_ours(name: str, value: str) -> bool:
    """Return whether an environment variable is a secret that tools should not get."""
    return name == "PYTOOLS_TOKEN" or (name == "PYTOOLS_DATABASE" and "://" in value)
