"""Converting any answer to a call to a valid result, and a result to a return value."""

from __future__ import annotations

import binascii
import json
import re
from typing import TYPE_CHECKING, Any, TypeVar

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

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

    from toolimport.clients._secrets import Redactor

    Block = dict[str, JsonValue]

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
