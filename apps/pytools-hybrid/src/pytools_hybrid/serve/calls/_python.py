"""Calling Python tools, each in the worker of its root."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from mcp.types import CallToolResult, ResourceLink, TextContent
from toolimport.runtime import argument_problems, call_seconds

from pytools_hybrid.search import module_name
from pytools_hybrid.serve.calls._worker import PythonWorker, Ran
from pytools_hybrid.text import readable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.shared.dispatcher import ProgressFnT
    from toolimport.runtime import Caller
    from toolscan import ToolRecord


_DEEPEST = 100
# All callers in this process share the worker of a root.
_workers: WeakKeyDictionary[
    asyncio.AbstractEventLoop, dict[tuple[Path, str, int], PythonWorker]
] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonTool:
    """A Python tool, which runs in the worker of its root.

    Attributes:
        python: The interpreter; None for the current one.
        memory: The memory limit of the worker, in MiB.
        reads_files: Whether the client reads files of this machine.
    """

    root: Path
    record: ToolRecord
    input_schema: Mapping[str, Any]
    python: Path | None
    memory: int
    reads_files: bool

    def problems(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """Return what is wrong with some arguments, in at most two sentences."""
        return argument_problems(self.input_schema, arguments)

    async def call(
        self,
        arguments: Mapping[str, Any],
        *,
        meta: Mapping[str, Any] | None = None,
        on_progress: ProgressFnT | None = None,
        caller: Caller | None = None,
    ) -> CallToolResult:
        """Run the tool, which gets no metadata and cannot ask questions."""
        del meta, on_progress, caller
        python = str(self.python or sys.executable)
        call = {
            "module": module_name(Path(self.record.path)),
            "file": str(self.root / self.record.path),
            "function": self.record.entrypoint,
            "params_class": self.record.params_class,
            "arguments": dict(arguments),
        }
        try:
            worker = _worker(self.root, python, self.memory << 20)
            ran = await worker.run(call, seconds=call_seconds(), keeps_whole=self.reads_files)
            return _result(ran)
        except ValueError as error:
            return _failed(str(error))
        except OSError as error:
            return _failed(f"{python} cannot be started: {error.strerror or error}")


def _worker(root: Path, python: str, memory: int) -> PythonWorker:
    workers = _workers.setdefault(asyncio.get_running_loop(), {})
    key = root, python, memory
    if key not in workers:
        workers[key] = PythonWorker(root, python=python, memory=memory)
    return workers[key]


async def close_workers() -> None:
    """End the processes in which Python tools run."""
    workers = _workers.pop(asyncio.get_running_loop(), {})
    await asyncio.gather(*(worker.close() for worker in workers.values()))


def _failed(text: str, *outputs: TextContent) -> CallToolResult:
    failure = TextContent(type="text", text=readable(text))
    return CallToolResult(content=[failure, *outputs], is_error=True)


def _result(ran: Ran) -> CallToolResult:
    outputs = [
        TextContent(type="text", text=f"[{name}]\n{readable(text)}")
        for name, text in (("stdout", ran.stdout), ("stderr", ran.stderr))
        if text.strip()
    ]
    if ran.error:
        return _failed(ran.error, *outputs)
    if ran.length:
        rest = (
            "the rest is not kept; ask for less"
            if ran.file is None
            else "the linked file has all of it"
        )
        cut = f"[cut: {len(ran.begin):,} of {ran.length:,} characters; {rest}]"
        text = TextContent(type="text", text=f"{readable(_sendable(ran.begin))}\n{cut}")
        if ran.file is None:
            return CallToolResult(content=[text, *outputs])
        link = ResourceLink(
            type="resource_link", uri=ran.file.as_uri(), name="result", mime_type="application/json"
        )
        return CallToolResult(content=[text, link, *outputs])
    result = ran.result
    whole = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    sendable = _sendable(whole)
    text = TextContent(type="text", text=readable(sendable))
    # No protocol can carry lone surrogates, or values nested too deeply.
    fits = sendable == whole and _depth(result) <= _DEEPEST
    structured = {"result": result} if fits else None
    return CallToolResult(content=[text, *outputs], structured_content=structured)


def _sendable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _depth(value: object) -> int:
    depth, level = 0, [value]
    while level and depth <= _DEEPEST:
        depth += 1
        level = [
            inner
            for it in level
            for inner in (
                cast("dict[str, object]", it).values()
                if isinstance(it, dict)
                else cast("list[object]", it)
                if isinstance(it, list)
                else ()
            )
        ]
    return depth
