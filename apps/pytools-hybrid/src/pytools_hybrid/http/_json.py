"""JSON of text that nobody has checked."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["json_response"]

# A page that shows an answer as it is must not run what a tool's description says.
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
_NOT_ASCII = re.compile(r"[^\x00-\x7e]")


def json_response(
    content: Any,  # noqa: ANN401 - any value of JSON
    *,
    status: int = 200,
    media_type: str = "application/json",
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Make a response of a value; characters that a terminal may obey are escaped."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(
        _NOT_ASCII.sub(lambda found: _printable(found[0]), text),
        status_code=status,
        media_type=media_type,
        headers={**_HEADERS, **(headers or {})},
    )


def _printable(character: str) -> str:
    # The quotes of the JSON string are cut off.
    return character if character.isprintable() else json.dumps(character)[1:-1]
