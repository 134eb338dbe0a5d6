"""JSON responses with untrusted text, and values that several of them contain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from pytools_hybrid.text import json_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytools_hybrid.search import ToolSearch

# A browser that displays an answer must not run code from a tool's description.
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


def json_response(
    content: Any,  # noqa: ANN401 - any value of JSON
    *,
    status: int = 200,
    media_type: str = "application/json",
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Create a response from a value; characters that could control a terminal are escaped."""
    return Response(
        json_text(content, allow_nan=False),
        status_code=status,
        media_type=media_type,
        headers={**_HEADERS, **(headers or {})},
    )


async def index_state(search: ToolSearch) -> dict[str, Any]:
    """Return the generation and the coverage of an index, as JSON values."""
    state = await search.index.state()
    return {
        "generation": state.generation,
        "coverage": {"tools": state.coverage.tools, "vectors": state.coverage.vectors},
    }
