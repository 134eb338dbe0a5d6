"""Explaining what went wrong with a connection, without revealing secrets."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from toolimport._reasons import innermost
from toolimport.errors import ServerError

if TYPE_CHECKING:
    from toolimport.connect._client import StderrTail
    from toolimport.connect._secrets import Redactor

_LINE_LENGTH = 500
_MESSAGE_LENGTH = 2000
# The library's messages for an answer with nothing but an HTTP status.
_STAND_INS = frozenset({"Server returned an error response", "Not Found", "Session terminated"})


def explain(error: BaseException, server: str, tail: StderrTail, redactor: Redactor) -> ServerError:
    """Explain what went wrong with a connection, without revealing secrets."""
    error = innermost(error)
    if isinstance(error, ServerError):
        return error
    from mcp.shared.exceptions import MCPError

    text = _short(_words(error), _MESSAGE_LENGTH, redactor) or type(error).__name__
    is_answer = isinstance(error, MCPError) and not is_closed(error)
    if is_answer and (tail.status is None or text not in _STAND_INS):
        return ServerError(server, text)
    if isinstance(error, ValueError | RuntimeError):  # it answered, but with an error
        return ServerError(server, text)
    if tail.status is not None:
        text = f"answered {_short(tail.status, _LINE_LENGTH, redactor)}"
        if tail.asks_for_sign_in:
            text += "; its server asks for a sign-in (OAuth): put a token in its 'headers'"
        elif tail.status.startswith(("401", "403")):
            text += "; check its 'headers'"
    elif type(error).__module__.partition(".")[0] in {"httpx2", "httpcore2"}:
        text = f"cannot be reached: {text}"
    elif isinstance(error, MCPError):
        text = "ended before it answered"
    with suppress(RuntimeError):  # copied, because the thread may be adding a line
        if lines := tail.lines:
            shown = (_short(line, _LINE_LENGTH, redactor) for line in lines[-5:])
            text += "; its last lines were: " + " | ".join(shown)
    return ServerError(server, text)


def is_closed(error: BaseException) -> bool:
    """Return whether the library, rather than the server, reports a closed connection."""
    from mcp.shared.exceptions import MCPError
    from mcp_types import CONNECTION_CLOSED

    # The code is not enough: most servers use the same one for their own errors.
    return (
        isinstance(error, MCPError)
        and error.code == CONNECTION_CLOSED
        and error.message.startswith(("Connection closed", "SSE stream "))
    )


def _words(error: BaseException) -> str:
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"its answer is invalid: {place}: {first['msg']}"


def _short(text: str, length: int, redactor: Redactor) -> str:
    # Cut after redaction, because half a secret would not be found.
    return " ".join(redactor.text(text).split())[:length]
