"""Repairing slightly invalid lists of tools before the library reads them.

The library rejects a whole list if one tool is invalid, and then also the results of all its tools.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from toolimport.connect._schemas import ResultCheck, input_schema, output_schema
from toolimport.lenient_json import read_leniently, without_half_characters

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from types import TracebackType

    from mcp.client._transport import ReadStream, TransportStreams
    from mcp.shared.message import SessionMessage
    from mcp_types import CallToolResult
    from pydantic import JsonValue


@dataclass
class Repairs:
    """Repairs messages of a server, and records what was wrong with them.

    Attributes:
        left_out: Why tools were left out, by their place in the list.
        notes: What was simplified, by the tool's name.
        garbled: Why the server's last line was not a message; empty if it was.
        is_for_calls: Whether the connection is for calling tools rather than importing all of them.
            Then only the result schemas of called tools are checked, because checking all of them
            can take seconds.
    """

    is_for_calls: bool = False
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    notes: dict[str, str] = field(default_factory=dict[str, str])
    garbled: str = ""
    _seen: int = 0
    _is_old: bool = False
    _checks: dict[str, ResultCheck] = field(default_factory=dict[str, ResultCheck])

    def read(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        """Repair a message."""
        if isinstance(item, Exception):
            # A lone surrogate, or one schema that is too deep, would lose the whole list.
            recovered = _recovered(item) or _wrong_answer(item)
            if recovered is None:
                self.garbled = _reason(item)
                return item
            item = recovered
        result: JsonValue = getattr(item.message, "result", None)
        if isinstance(result, dict):
            # Only older protocols begin with this answer; they only allow objects as results.
            self._is_old = self._is_old or "protocolVersion" in result
            if isinstance(tools := result.get("tools"), list):
                made = map(self._tool, tools)
                result["tools"] = [it for it in made if it is not None]
        return item

    def result_problem(self, tool: str, result: CallToolResult) -> str:
        """Return why a called tool's result does not match its schema; empty if it does."""
        check = self._checks.get(tool)
        return "" if check is None else check.problem(tool, result)

    def _tool(self, tool: JsonValue) -> dict[str, Any] | None:
        self._seen += 1
        if not isinstance(tool, dict) or not isinstance(name := tool.get("name"), str):
            self.left_out[f"number {self._seen}"] = "it has no name"
            return None
        if "\ufffd" in name:
            self.left_out[f"number {self._seen}"] = "its name contains half of a surrogate pair"
            return None
        notes: list[str] = []
        made = {key: tool[key] for key in ("title", "description") if _is_text(tool.get(key))}
        annotations = tool.get("annotations")
        if isinstance(annotations, dict):
            kept = {key: it for key, it in annotations.items() if _is_valid(key, it)}
            made |= {"annotations": kept} if kept else {}
        made |= {"name": name, "inputSchema": input_schema(tool.get("inputSchema"), notes)}
        given = tool.get("outputSchema")
        if self.is_for_calls:
            self._checks[name] = ResultCheck(given, is_old=self._is_old)
        elif (output := output_schema(given, notes, is_old=self._is_old)) is not None:
            made["outputSchema"] = output
        if notes:
            self.notes[name] = "; ".join(notes)
        return made


def _recovered(error: Exception) -> SessionMessage | None:
    """Leniently read a message that the library rejected; return None if it is not a message."""
    from mcp.shared.message import SessionMessage
    from mcp.types import jsonrpc_message_adapter
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return None
    wrong = error.errors(include_url=False)[0]
    if wrong["type"] != "json_invalid" or not isinstance(wrong["input"], str):
        return None
    try:
        read = without_half_characters(read_leniently(wrong["input"]))
        return SessionMessage(jsonrpc_message_adapter.validate_python(read, by_name=False))
    except ValueError:
        return None


def _wrong_answer(error: Exception) -> SessionMessage | None:
    """Return an error instead of an invalid answer, because the library would go on waiting."""
    from mcp.shared.message import SessionMessage
    from mcp.types import INVALID_PARAMS, ErrorData, JSONRPCError
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return None
    for wrong in error.errors(include_url=False):
        given = wrong["input"]
        if isinstance(given, dict) and {"result", "error"} & given.keys() and "method" not in given:
            answered = cast("dict[str, object]", given).get("id")
            if isinstance(answered, str | int):
                problem = ErrorData(code=INVALID_PARAMS, message="its answer is invalid")
                return SessionMessage(JSONRPCError(jsonrpc="2.0", id=answered, error=problem))
    return None


def _is_valid(annotation: str, value: object) -> bool:
    return _is_text(value) if annotation == "title" else isinstance(value, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _reason(error: Exception) -> str:
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        # Without the input, which may be large.
        return error.errors(include_url=False, include_input=False)[0]["msg"]
    return type(error).__name__


@asynccontextmanager
async def lenient(
    transport: AbstractAsyncContextManager[TransportStreams], repairs: Repairs
) -> AsyncGenerator[TransportStreams]:
    """Repair a server's messages on their way to the library."""
    async with transport as (read, write):
        yield _Lenient(read, repairs), write


class _Lenient:
    def __init__(self, stream: ReadStream[SessionMessage | Exception], repairs: Repairs) -> None:
        self._stream = stream
        self._repairs = repairs

    @property
    def last_context(self) -> object:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return self._repairs.read(await self._stream.receive())

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> _Lenient:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return self._repairs.read(await self._stream.__anext__())

    async def __aenter__(self) -> _Lenient:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None:
        return await self._stream.__aexit__(exc_type, exc_val, exc_tb)
