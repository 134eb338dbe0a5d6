"""From a server's answer to the return value of `run`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock

    from toolimport.connect import Redactor

NOTE = "toolimport/note"
"""The member of a result's metadata that says which parts were invalid; a server cannot set it."""


def answer_of(result: CallToolResult) -> Any:  # noqa: ANN401 - any JSON
    """Return the structured answer if there is one, else the text."""
    return text_of(result) if result.structured_content is None else result.structured_content


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
