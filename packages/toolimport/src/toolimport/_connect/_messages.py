"""Reading a server's messages and results leniently, before the library does.

The library rejects a whole list if one tool is invalid, and then also the results of all its tools.
It rejects a whole result if one part is invalid, although the tool has run.
"""

from __future__ import annotations

import binascii
import codecs
import json
import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

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
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel, ValidationError

from toolimport._schemas import ResultCheck, input_schema, output_schema
from toolimport.lenient_json import read_leniently

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextvars import Context

    from mcp_types import RequestId
    from pydantic import JsonValue

    from toolimport.clients._secrets import Redactor

    Block = dict[str, JsonValue]
    OnLog = Callable[[dict[str, Any], Context | None], None]

Model = TypeVar("Model", bound=BaseModel)

_MEMBERS = {"content", "structuredContent", "isError", "_meta", "resultType"}
_FLAGS: dict[JsonValue, bool] = {"true": True, "false": False, 1: True, 0: False, "": False}
_BINARY: dict[str, type[ImageContent | AudioContent]] = {
    "image": ImageContent,
    "audio": AudioContent,
}
NOTE = "toolimport/note"
"""The member of a result's metadata that says which parts were invalid; a server cannot set it."""

_NO_ADDRESS = "unknown:"
_NO_TYPE = "application/octet-stream"
_SPACE = re.compile(r"\s+")
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
            failure = members["error"]
            told = failure.get("message") if isinstance(failure, dict) else failure
            return _failure(answered, str(told or "its answer is invalid"))
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
            error, number = message.error, message.id
            is_unreadable = error.code == PARSE_ERROR and error.message.startswith(_UNREADABLE)
            if is_unreadable and number is not None:
                lost = Answer(lost="it is not valid JSON")
                return self.received(lost.message(number), context)
            self._calls.discard(str(number))
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
        is_question = isinstance(result, dict) and result.get("resultType") == "input_required"
        if is_call and not is_question:
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
            and isinstance(params.get("message"), str | None)
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
        about = ("title", "description")
        made = {key: tool[key] for key in about if isinstance(tool.get(key), str)}
        annotations = tool.get("annotations")
        if isinstance(annotations, dict):
            kept: dict[str, JsonValue] = {
                key: it
                for key, it in annotations.items()
                if isinstance(it, str if key == "title" else bool)
            }
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

    async def __aexit__(self, exc_type: object, exc_val: object, exc_tb: object) -> None:
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


def read_result(value: JsonValue, notes: list[str]) -> CallToolResult:
    """Return the usable parts of an answer; `notes` receives what was left out or changed."""
    given = _members(value)
    structured = given.get("structuredContent")
    is_error = given.get("isError")
    if is_error is not None and not isinstance(is_error, bool):
        known = is_error.lower() if isinstance(is_error, str) else is_error
        # A list or an object cannot be looked up.
        flag = _FLAGS.get(known) if isinstance(known, str | int) else None
        if flag is None:
            notes.append(f"'isError' is {_shown(is_error)}, and was ignored")
        is_error = flag
    meta = given.get("_meta")
    if meta is not None and not isinstance(meta, dict):
        notes.append("'_meta' is not an object, and was left out")
        meta = None
    content = _content(given.get("content"), notes)
    if not content and structured is not None:
        # For clients that only read text.
        content.append(_as_text(structured))
    result = CallToolResult(content=content, is_error=bool(is_error), _meta=meta)
    return result.model_copy(
        update={"structured_content": structured} if "structuredContent" in given else {}
    )


def _members(value: JsonValue) -> Block:
    """Return an answer's members; an answer that is only a part of a result is that part."""
    match value:
        case None:
            return {}
        case dict():
            # Before the first version with results, the name was another one.
            if "toolResult" in value and value.keys().isdisjoint(_MEMBERS - {"_meta"}):
                return {"structuredContent": value["toolResult"], "_meta": value.get("_meta")}
            extra = {key: it for key, it in value.items() if key not in _MEMBERS}
            if extra and value.keys().isdisjoint({"content", "structuredContent"}):
                return {**value, "structuredContent": extra}
            return value
        case str():
            return {"content": value}
        case list() if value and all(isinstance(it, dict) and "type" in it for it in value):
            return {"content": value}
        case _:
            return {"structuredContent": value}


def _content(value: JsonValue, notes: list[str]) -> list[ContentBlock]:
    given = [] if value is None else value if isinstance(value, list) else [value]
    content: list[ContentBlock] = []
    for number, item in enumerate(given):
        found: list[str] = []
        block = _block(item, found) if isinstance(item, dict) else _as_text(item)
        if item is None:
            found.append("is null, and was left out")
        elif block is not None:
            content.append(block)
        notes += [f"content[{number}] {it}" for it in found]
    return content


def _block(given: Block, notes: list[str]) -> ContentBlock | None:
    text, uri, data, name = (given.get(key) for key in ("text", "uri", "data", "name"))
    kind = given.get("type")
    if kind is None and isinstance(text, str):
        kind = "text"
    match kind:
        case "text" if text is None:
            notes.append("has no text, and was left out")
            return None
        case "text":
            return _made(TextContent, {**given, "type": kind, "text": _as_text(text).text}, notes)
        case "image" | "audio":
            if (data := _base64(data)) is None:
                notes.append("has no valid base64, and was left out")
                return None
            if isinstance(mime := given.get("mimeType"), str) and mime:
                return _made(_BINARY[kind], {**given, "data": data}, notes)
            # Providers of models refuse an image without its format, and the conversation with it.
            notes.append("has no valid 'mimeType'; its format is unknown")
            blob = BlobResourceContents(uri=_NO_ADDRESS, mime_type=_NO_TYPE, blob=data)
            return EmbeddedResource(resource=blob)
        case "resource_link" if isinstance(uri, str):
            given = {**given, "name": name if isinstance(name, str) else uri}
            return _made(ResourceLink, given, notes)
        case "resource":
            return _resource(given, notes)
        case _ if isinstance(text, str):
            notes.append(f"has the unknown type {_shown(kind)}; its text was kept")
            return TextContent(text=text)
        case _:
            notes.append(f"is not a valid block of type {_shown(kind)}; it was kept as JSON")
            return _as_text(given)


def _resource(given: Block, notes: list[str]) -> ContentBlock | None:
    found = given.get("resource")
    inner = found if isinstance(found, dict) else {"text": found}
    text, blob, uri = inner.get("text"), _base64(inner.get("blob")), inner.get("uri")
    if isinstance(text, str):
        if not isinstance(uri, str):
            return TextContent(text=text)
        resource: BaseModel = _made(TextResourceContents, inner, notes)
    elif blob is not None:
        fields = {**inner, "blob": blob, "uri": uri if isinstance(uri, str) else _NO_ADDRESS}
        resource = _made(BlobResourceContents, fields, notes)
    else:
        notes.append("has neither text nor valid base64, and was left out")
        return None
    return _made(EmbeddedResource, {**given, "resource": resource}, notes)


def _made(model: type[Model], given: Mapping[str, Any], notes: list[str]) -> Model:
    """Return a block without its invalid members, of which the required ones are valid."""
    try:
        return model.model_validate(given, by_name=False)
    except ValidationError as error:
        wrong = {str(it["loc"][0]) for it in error.errors(include_url=False)}
    notes += [
        f"has an invalid {name!r}, which was left out"
        for name in sorted(wrong)
        if given.get(name) is not None
    ]
    return _made(model, {name: it for name, it in given.items() if name not in wrong}, notes)


def _as_text(value: JsonValue) -> TextContent:
    return TextContent(text=value if isinstance(value, str) else json.dumps(value))


def _base64(data: JsonValue) -> str | None:
    """Return base64 without spaces, and with the padding that some servers omit."""
    if not isinstance(data, str):
        return None
    bare = _SPACE.sub("", data)
    padded = bare + "=" * (-len(bare) % 4)
    try:
        binascii.a2b_base64(padded, strict_mode=True)
    except ValueError:
        return None
    return padded


def _shown(value: JsonValue) -> str:
    return json.dumps(value)[:40]


def text_of(result: CallToolResult) -> str:
    """Return an answer as text, which mentions images and the like."""
    return "\n".join(_text(block) for block in result.content)


def note_of(result: CallToolResult) -> str:
    """Return the note on a result's invalid parts; "" if all are valid."""
    return str((result.meta or {}).get(NOTE, ""))


def with_note(result: CallToolResult, note: str) -> CallToolResult:
    """Return a result with this note and no other; "" removes it."""
    meta = {key: it for key, it in (result.meta or {}).items() if key != NOTE}
    return result.model_copy(update={"meta": meta | ({NOTE: note} if note else {}) or None})


def json_of(result: CallToolResult) -> Any:  # noqa: ANN401 - any JSON
    """Return the value of an answer that is one text of JSON; None if it is anything else."""
    if len(result.content) != 1 or result.content[0].type != "text":
        return None
    try:
        return json.loads(result.content[0].text)
    except (ValueError, RecursionError):
        return None


def without_secrets(result: CallToolResult, redactor: Redactor) -> CallToolResult:
    """Return an answer with secrets redacted in its texts."""
    content = [
        block.model_copy(update={"text": redactor.text(block.text)})
        if block.type == "text"
        else block
        for block in result.content
    ]
    return result.model_copy(update={"content": content})


def _text(block: ContentBlock) -> str:
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return f"[{block.type}: {block.mime_type}, {len(block.data)} characters of base64]"
        case "resource_link":
            return f"[{block.name}: {block.uri}]"
        case "resource":
            resource = block.resource
            if resource_text := getattr(resource, "text", None):
                return str(resource_text)
            length = len(getattr(resource, "blob", ""))
            kind = resource.mime_type or "resource"
            return f"[{kind}: {resource.uri}, {length} characters of base64]"
