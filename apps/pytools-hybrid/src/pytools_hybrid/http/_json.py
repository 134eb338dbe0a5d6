"""JSON of text that nobody has checked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["json_response"]

# A page that shows an answer as it is must not run what a tool's description says.
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


def json_response(
    content: Any,  # noqa: ANN401 - any value of JSON
    *,
    status: int = 200,
    media_type: str = "application/json",
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Make a response of a value; half a surrogate pair stays an escape."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    body = text.encode("utf-8", "backslashreplace")
    return Response(
        body, status_code=status, media_type=media_type, headers={**_HEADERS, **(headers or {})}
    )
