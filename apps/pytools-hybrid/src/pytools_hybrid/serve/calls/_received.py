"""The few changes to a server's answers and questions before a client gets them."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, cast

from mcp.types import (
    INVALID_REQUEST,
    CallToolResult,
    ElicitRequest,
    ElicitRequestURLParams,
    ErrorData,
    TextContent,
)

from pytools_hybrid.text import readable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROTOCOL = "io.modelcontextprotocol/"
"""The prefix of `_meta` keys that only concern a client and its own server."""

_LINKED = (
    "The linked resources are on the tool's own server; this server passes calls on, and cannot "
    "read them."
)

_HIDDEN_IN_ADDRESS = "the address has invisible characters"


def received(result: CallToolResult) -> CallToolResult:
    """Return an answer without the server's metadata, which must not pass as ours.

    Notes on invalid parts, and on numbers that JSON lacks, follow as a text.
    """
    given = dict(result.meta or {})
    # The note of toolimport, which no server can set.
    notes = [str(given.pop("toolimport/note", ""))]
    structured = _finite(result.structured_content)
    if structured is not result.structured_content:
        notes.append("NaN and infinite numbers were replaced by text, because JSON has none.")
    meta = {key: it for key, it in given.items() if not key.startswith(PROTOCOL)}
    content = list(result.content)
    if any(block.type == "resource_link" for block in content):
        content.append(TextContent(type="text", text=_LINKED))
    if note := " ".join(filter(None, notes)):
        content.append(TextContent(type="text", text=readable(note)))
    update = {"content": content, "meta": meta or None}
    # Only if it was replaced, because a field that is set counts as present.
    if structured is not result.structured_content:
        update["structured_content"] = structured
    return result.model_copy(update=update)


def shown_question(request: ElicitRequest, server: str) -> ElicitRequest | ErrorData:
    """Return a question to the user that names the server, and is safe to show on a terminal."""
    asked = request.params
    update: dict[str, Any] = {"message": f"[{server}] {readable(asked.message)}"}
    if isinstance(asked, ElicitRequestURLParams):
        if not asked.url.isprintable():
            return ErrorData(code=INVALID_REQUEST, message=_HIDDEN_IN_ADDRESS)
    else:
        update["requested_schema"] = _readable(asked.requested_schema)
    return request.model_copy(update={"params": asked.model_copy(update=update)})


def _finite(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a value with texts instead of numbers that are not finite; the same if all are."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, list):
        items = cast("list[Any]", value)
        made: Any = [_finite(it) for it in items]
        return made if any(map(operator.is_not, items, made)) else items
    if isinstance(value, dict):
        given = cast("dict[str, Any]", value)
        made = {key: _finite(it) for key, it in given.items()}
        return made if any(map(operator.is_not, given.values(), made.values())) else given
    return value


def _readable(value: object) -> object:
    """Return a JSON value with readable texts, including the names and choices of a form."""
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, list):
        return [_readable(it) for it in cast("Sequence[object]", value)]
    if isinstance(value, dict):
        given = cast("Mapping[str, object]", value)
        return {readable(key): _readable(it) for key, it in given.items()}
    return value
