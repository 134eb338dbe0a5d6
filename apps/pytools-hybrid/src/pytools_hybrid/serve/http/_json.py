"""JSON of text that nobody has checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from pytools_hybrid.text import json_text

if TYPE_CHECKING:
    from collections.abc import Mapping

# A page that shows an answer as it is must not run what a tool's description says.
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


def json_response(
    content: Any,  # noqa: ANN401 - any value of JSON
    *,
    status: int = 200,
    media_type: str = "application/json",
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Make a response of a value; characters that a terminal may obey are escaped."""
    return Response(
        json_text(content, allow_nan=False),
        status_code=status,
        media_type=media_type,
        headers={**_HEADERS, **(headers or {})},
    )
