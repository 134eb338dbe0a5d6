"""Calling Python tools, each call in a process of its own."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from mcp.types import CallToolResult, TextContent
from toolimport.runtime import ImportedTool, ToolRunner

from pytools_hybrid.search import module_name
from pytools_hybrid.serve.calls._process import RunResult, run_tool
from pytools_hybrid.text import readable

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from mcp.shared.dispatcher import ProgressFnT
    from toolimport.runtime import ClientHandlers
    from toolscan import ToolRecord

_DEEPEST = 100


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

    async def call(
        self,
        arguments: Mapping[str, Any],
        *,
        meta: Mapping[str, Any] | None = None,
        on_progress: ProgressFnT | None = None,
        client: ClientHandlers | None = None,
    ) -> CallToolResult:
        """Run the tool, which gets no metadata and cannot ask questions."""
        del meta, on_progress, client
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
                return _result(
                    await run_tool(call, python=python, seconds=ToolRunner.call_seconds())
                )
        except ValueError as error:
            return _failed(str(error))
        except OSError as error:
            return _failed(f"{python} cannot be started: {error.strerror or error}")


def _failed(text: str, *outputs: TextContent) -> CallToolResult:
    failure = TextContent(type="text", text=readable(text))
    return CallToolResult(content=[failure, *outputs], is_error=True)


def _result(ran: RunResult) -> CallToolResult:
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
