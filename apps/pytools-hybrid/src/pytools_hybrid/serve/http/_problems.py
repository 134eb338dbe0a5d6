"""JSON responses with untrusted text, and errors as problem details (RFC 9457)."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response
from toolembed import EmbeddingError
from toolimport import ToolImportError
from toolindex import ArgumentError, ToolIndexError
from toolrank import ToolRankError

from pytools_hybrid.errors import (
    AmbiguousToolError,
    IndexNotReadyError,
    PytoolsError,
    ToolRefusedError,
    UnknownCategoryError,
    UnknownToolError,
)
from pytools_hybrid.text import json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from starlette.requests import Request
    from starlette.types import Scope

MEDIA_TYPE = "application/problem+json"

_log = logging.getLogger("pytools_hybrid")

_RETRY_SECONDS = 5
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


class FieldError(BaseModel):
    """One error in a request."""

    detail: str = Field(description="What is wrong, and what is allowed")
    parameter: Annotated[str | None, Field(description="The parameter of the query")] = None
    pointer: Annotated[str | None, Field(description="The place in the body, a JSON pointer")] = (
        None
    )


class ProblemDetails(BaseModel):
    """Why a request was not answered (RFC 9457)."""

    type: str = Field(description="about:blank: the status says which problem it is")
    title: str = Field(description="The status in words")
    status: int = Field(description="The status")
    detail: str = Field(description="What is wrong, and what to do")
    instance: str = Field(description="The requested path")
    errors: Annotated[list[FieldError] | None, Field(description="Each problem")] = None
    candidates: Annotated[list[str] | None, Field(description="Names that may have been meant")] = (
        None
    )


class ProblemError(Exception):
    """An error response.

    Attributes:
        detail: What is wrong, and what to do.
        errors: The single errors, if there may be several.
        candidates: Names that may have been meant.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        errors: Sequence[FieldError] = (),
        candidates: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = errors
        self.candidates = candidates
        self.headers = headers

    def response(self, scope: Scope) -> Response:
        """Return the response to a request."""
        details = ProblemDetails(
            type="about:blank",
            title=HTTPStatus(self.status).phrase,
            status=self.status,
            detail=self.detail,
            instance=quote(scope["path"], errors="replace"),
            errors=list(self.errors) or None,
            candidates=list(self.candidates) or None,
        )
        return json_response(
            details.model_dump(exclude_none=True),
            status=self.status,
            media_type=MEDIA_TYPE,
            headers=self.headers,
        )


def exception_handlers() -> dict[Any, Callable[[Request, Exception], Response]]:
    """Return the handlers that turn exceptions into responses."""
    of_libraries = (EmbeddingError, ToolImportError, ToolIndexError, ToolRankError)
    kinds = (ProblemError, HTTPException, PytoolsError, *of_libraries, Exception)
    return dict.fromkeys(kinds, _respond)


def _respond(request: Request, error: Exception) -> Response:
    return problem_of(request, error).response(request.scope)


def problem_of(request: Request, error: Exception) -> ProblemError:
    """Return the error response for an exception."""
    match error:
        case ProblemError():
            return error
        case HTTPException(status_code=404):
            return ProblemError(404, "there is nothing at this path; /openapi.json lists all paths")
        case HTTPException(status_code=405):
            allowed = ", ".join(sorted((error.headers or {}).get("Allow", "").split(", ")))
            detail = f"{request.method} is not allowed here; use {allowed}"
            return ProblemError(405, detail, headers={"Allow": allowed})
        case HTTPException():
            return ProblemError(error.status_code, error.detail, headers=error.headers)
        case UnknownToolError() | UnknownCategoryError():
            return ProblemError(404, str(error), candidates=error.candidates)
        case AmbiguousToolError():
            return ProblemError(409, str(error), candidates=error.candidates)
        case IndexNotReadyError():
            return ProblemError(503, str(error), headers={"Retry-After": str(_RETRY_SECONDS)})
        case ToolRefusedError():
            return ProblemError(422, str(error))
        case ToolImportError():
            return ProblemError(502, str(error))
        case PytoolsError():
            # The message of each of our errors says what to do.
            return ProblemError(409, str(error))
        case ArgumentError():
            return ProblemError(422, str(error))
        case EmbeddingError() | ToolIndexError() | ToolRankError():
            _log.warning("%s: %s", request.url.path, error)
            return ProblemError(
                503,
                "the index cannot be read now; the server's log says why",
                headers={"Retry-After": str(_RETRY_SECONDS)},
            )
        case _:
            return ProblemError(500, "the server failed; its log says why")
