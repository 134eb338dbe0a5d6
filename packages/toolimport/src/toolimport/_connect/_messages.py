"""Reading a server's messages leniently, before the library does.

The library rejects a whole list if one tool is invalid, and then also the results of all its tools.
It rejects a whole result if one part is invalid, although the tool has run.
"""

from __future__ import annotations

import codecs
import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, cast

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from toolimport._schemas import ResultCheck, input_schema, output_schema
from toolimport.lenient_json import read_leniently

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context
    from types import TracebackType

    from mcp_types import RequestId
    from pydantic import JsonValue

    OnLog = Callable[[dict[str, Any], Context | None], None]

# Members of results. A server's answer is inside the second one, so it cannot set that itself.
_WRAPPED = "toolimport/answer"
_CALLED = "toolimport/result"
# How the library's message begins if it cannot read an HTTP answer.
_UNREADABLE = "Failed to parse"


@dataclass(frozen=True, slots=True)
class Answer:
    """The result in an answer, as the server sent it, or why it is lost; `notes` list repairs."""

    value: JsonValue = None
    notes: tuple[str, ...] = ()
    lost: str = ""

    @classmethod
    def of_call(cls, meta: dict[str, Any] | None) -> Answer:
        """Return the answer to a call, from the metadata that the library returned."""
        return cast("Answer", (meta or {})[_CALLED])

    def message(self, request_id: RequestId) -> SessionMessage:
        """Return a message that the library accepts, whatever the answer is."""
        # As text, because over HTTP the library parses it again.
        text = json.dumps([self.value, self.notes, self.lost])
        return SessionMessage(
            JSONRPCResponse(jsonrpc="2.0", id=request_id, result={_WRAPPED: text})
        )

    @classmethod
    def read(cls, result: dict[str, Any]) -> Answer:
        """Return the answer in a message's result."""
        if not isinstance(text := result.get(_WRAPPED), str):
            return cls(result)
        try:
            value, notes, lost = json.loads(text)
            return cls(value, tuple(map(str, notes)), str(lost))
        except (ValueError, TypeError, RecursionError):  # a server has set it
            return cls(cast("JsonValue", result))


def read_message(text: bytes) -> SessionMessage | str:
    """Return a message, or the reason why the text is none; "" for a blank text."""
    text = text.removeprefix(codecs.BOM_UTF8)
    if not text.strip():
        return ""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
    except ValidationError as error:
        # Without the input, which may be large.
        reason = error.errors(include_url=False, include_input=False)[0]["msg"]
    notes: list[str] = []
    decoded = text.decode(errors="replace")
    if decoded.encode() != text:
        notes.append("invalid UTF-8 in it was replaced")
    with suppress(ValueError):
        read = read_leniently(decoded, notes)
        if isinstance(read, list):
            # A batch, as in an older protocol; nothing but one answer is expected in it.
            read = next((it for it in read if isinstance(it, dict) and "method" not in it), None)
        members = read if isinstance(read, dict) else {}
        answered = members.get("id")
        if "method" in members or not isinstance(answered, str | int):
            return SessionMessage(jsonrpc_message_adapter.validate_python(read, by_name=False))
        if "result" in members:
            return Answer(members["result"], tuple(notes)).message(answered)
        if "error" in members:
            error = members["error"]
            text_of_error = error.get("message") if isinstance(error, dict) else error
            return _failure(answered, str(text_of_error or "its answer is invalid"))
    return reason


def _failure(request_id: RequestId, problem: str, code: int = INTERNAL_ERROR) -> SessionMessage:
    error = ErrorData(code=code, message=problem)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request_id, error=error))


@dataclass
class Repairs:
    """Repairs messages of a server, and records what was wrong with them.

    Attributes:
        left_out: Why tools were left out, by their place in the list.
        notes: What was simplified, by the tool's name.
        garbled: Why the server's last line was not a message; empty if it was.
        is_for_calls: Whether only called tools' result schemas are checked, because checking all of
            them can take seconds.
        on_log: Receives the parameters of log messages, and the context that they arrived in.
        on_call: Called in the task of a call before its request is sent.
    """

    is_for_calls: bool = False
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    notes: dict[str, str] = field(default_factory=dict[str, str])
    garbled: str = ""
    on_log: OnLog | None = None
    on_call: Callable[[], None] = lambda: None
    _seen: int = 0
    _is_old: bool = False
    _checks: dict[str, ResultCheck] = field(default_factory=dict[str, ResultCheck])
    _calls: set[str] = field(default_factory=set[str])

    def sent(self, item: SessionMessage) -> None:
        """Record which requests are calls."""
        if isinstance(message := item.message, JSONRPCRequest):
            if message.method == "tools/call":
                self._calls.add(str(message.id))
                self.on_call()
        elif getattr(message, "method", None) == "notifications/cancelled":
            params: dict[str, Any] = getattr(message, "params", None) or {}
            self._calls.discard(str(params.get("requestId")))

    def received(
        self, item: SessionMessage | Exception, context: Context | None
    ) -> SessionMessage | None:
        """Repair a message; return None if it is dropped."""
        if isinstance(item, Exception):
            self.garbled = type(item).__name__
            return None
        message = item.message
        if isinstance(message, JSONRPCResponse):
            return self._answer(message)
        if isinstance(message, JSONRPCError) and str(message.id) in self._calls:
            if message.error.code == PARSE_ERROR and message.error.message.startswith(_UNREADABLE):
                return self.received(
                    Answer(lost="it is not valid JSON").message(message.id), context
                )
            self._calls.discard(str(message.id))
        if isinstance(message, JSONRPCNotification):
            return item if self._is_wanted(message, context) else None
        return item

    def result_problem(self, tool: str, value: JsonValue, *, is_given: bool) -> str:
        """Return why a result's structured content does not match its schema; "" if it does."""
        check = self._checks.get(tool)
        return "" if check is None else check.problem(value, is_given=is_given)

    def is_listed(self, tool: str) -> bool:
        """Return whether the server has listed a tool on this connection."""
        return tool in self._checks

    def _answer(self, message: JSONRPCResponse) -> SessionMessage:
        answer = Answer.read(message.result)
        result, request_id = answer.value, str(message.id)
        is_call = request_id in self._calls
        self._calls.discard(request_id)
        if is_call and not _is_question(result):
            # Marked as a failure, because for a success the library would request the result
            # schemas now, and reject the result without them.
            message.result = {"content": [], "isError": True, "resultType": "complete"}
            message.result["_meta"] = {_CALLED: answer}
        elif isinstance(result, dict):
            message.result = result
            # Only older protocols begin with this answer; they only allow objects as results.
            self._is_old = self._is_old or "protocolVersion" in result
            if isinstance(tools := result.get("tools"), list):
                made = map(self._tool, tools)
                message.result["tools"] = [it for it in made if it is not None]
        else:
            problem = f"its answer is invalid: {answer.lost or 'it is not an object'}"
            return _failure(message.id, problem, INVALID_PARAMS)
        return SessionMessage(message)

    def _is_wanted(self, message: JSONRPCNotification, context: Context | None) -> bool:
        """Return whether the library can use a notification; it logs the contents of others."""
        params: dict[str, Any] = message.params or {}
        if message.method == "notifications/message" and self.on_log is not None:
            self.on_log(params, context)
        if message.method == "notifications/cancelled":
            return isinstance(params.get("requestId"), str | int)
        return (
            message.method == "notifications/progress"
            and isinstance(params.get("progressToken"), str | int)
            and _is_number(params.get("progress"))
            and (params.get("total") is None or _is_number(params["total"]))
            and (params.get("message") is None or _is_text(params["message"]))
        )

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


def _is_question(result: JsonValue) -> bool:
    return isinstance(result, dict) and result.get("resultType") == "input_required"


def _is_valid(annotation: str, value: object) -> bool:
    return _is_text(value) if annotation == "title" else isinstance(value, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class _RepairedStream:
    """A stream of the library, which enters it, and reads or writes."""

    def __init__(self, stream: Any, repairs: Repairs) -> None:  # noqa: ANN401 - of either direction
        self._stream = stream
        self._repairs = repairs

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None:
        await self.aclose()


class ReceivedMessages(_RepairedStream):
    """A server's messages on their way to the library, repaired."""

    @property
    def last_context(self) -> Context | None:
        """The context that the last message was received in."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message that the library can use."""
        while True:
            item = self._repairs.received(await self._stream.receive(), self.last_context)
            if item is not None:
                return item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class SentMessages(_RepairedStream):
    """Messages to a server, recorded."""

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message."""
        # Recorded before, because an interrupted message may have arrived.
        self._repairs.sent(item)
        await self._stream.send(item)
