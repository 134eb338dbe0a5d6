"""JSON responses with untrusted text, and errors as problem details (RFC 9457)."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
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
from pytools_hybrid.settings import AliasError
from pytools_hybrid.text import json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pydantic import ValidationError
    from starlette.requests import Request
    from starlette.types import Scope

MEDIA_TYPE = "application/problem+json"

_log = logging.getLogger("pytools_hybrid")

_RETRY = {"Retry-After": "5"}
_SHOWN_ERRORS = 20
_SHOWN_CHARACTERS = 100


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
        headers={
            # A browser that displays an answer must not run code from a tool's description.
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
            **(headers or {}),
        },
    )


class FieldError(BaseModel):
    """One error in a request."""

    detail: str = Field(description="What is wrong, and what is allowed")
    parameter: str | None = Field(default=None, description="The parameter of the query")
    pointer: str | None = Field(default=None, description="The place in the body, a JSON pointer")


class ProblemDetails(BaseModel):
    """Why a request was not answered (RFC 9457)."""

    type: str = Field(description="about:blank: the status says which problem it is")
    title: str = Field(description="The status in words")
    status: int = Field(description="The status")
    detail: str = Field(description="What is wrong, and what to do")
    instance: str = Field(description="The requested path")
    errors: list[FieldError] | None = Field(default=None, description="Each problem")
    candidates: list[str] | None = Field(default=None, description="Names that may have been meant")


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

    @classmethod
    def of_fields(cls, error: ValidationError, what: str, known: Sequence[str]) -> ProblemError:
        """Return the problem that lists what is wrong with the query or the body of a request.

        Args:
            error: What pydantic found.
            what: The query or the body.
            known: The names that it may have.
        """
        found = sorted(
            error.errors(include_url=False), key=lambda it: it["type"] != "extra_forbidden"
        )
        errors: list[FieldError] = []
        for each in found[:_SHOWN_ERRORS]:
            detail = each["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
            detail = detail[:1].lower() + detail[1:]
            if each["type"] == "extra_forbidden":
                detail = f"is not known; known are {', '.join(known) or 'none'}"
            elif each["type"] in {"dict_type", "model_type"}:
                detail = "input should be an object"
            cause = each.get("ctx", {}).get("error")
            where = [cause.alias] if isinstance(cause, AliasError) else each["loc"]
            names = [str(it)[:_SHOWN_CHARACTERS] for it in where]
            if what == "query":
                errors.append(FieldError(parameter=names[0], detail=detail))
            else:
                pointer = "".join(f"/{it.replace('~', '~0').replace('/', '~1')}" for it in names)
                errors.append(FieldError(pointer=pointer, detail=detail))
        told = "; ".join(f"{it.parameter or it.pointer or 'it'}: {it.detail}" for it in errors)
        more = f"; and {len(found) - len(errors)} more" if len(found) > len(errors) else ""
        return cls(422, f"the {what} is invalid: {told}{more}", errors=errors)

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

    def respond(request: Request, error: Exception) -> Response:
        return problem_of(request, error).response(request.scope)

    of_libraries = (EmbeddingError, ToolImportError, ToolIndexError, ToolRankError)
    kinds = (ProblemError, HTTPException, PytoolsError, *of_libraries, Exception)
    return dict.fromkeys(kinds, respond)


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
            return ProblemError(503, str(error), headers=_RETRY)
        case ToolRefusedError() | ArgumentError():
            return ProblemError(422, str(error))
        case ToolImportError():
            return ProblemError(502, str(error))
        case PytoolsError():
            # The message of each of our errors says what to do.
            return ProblemError(409, str(error))
        case EmbeddingError() | ToolIndexError() | ToolRankError():
            _log.warning("%s: %s", request.url.path, error)
            return ProblemError(
                503, "the index cannot be read now; the server's log says why", headers=_RETRY
            )
        case _:
            return ProblemError(500, "the server failed; its log says why")
