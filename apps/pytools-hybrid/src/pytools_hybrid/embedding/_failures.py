"""What an error of pydantic-ai, of a provider's package or of the network calls for."""

from __future__ import annotations

from toolindex import FailureKind

__all__ = ["kind_of", "retry_after_of"]

_TRANSIENT_STATUSES = frozenset({408, 409, 425, 429})
_REFUSED_STATUSES = frozenset({400, 413, 422})


def kind_of(error: BaseException) -> FailureKind:
    """Tell what to do after a request failed: try again, leave the text out, or mend something.

    What is not known is tried again: that is bounded, and it costs the least.
    """
    from pydantic_ai import exceptions as ai

    match error:
        # The order matters: the first two are kinds of rejected requests too.
        case ai.ModelAuthenticationError() | ai.ModelNotFoundError() | ai.ModelQuotaExceededError():
            return FailureKind.UNAVAILABLE
        case ai.ModelRequestRejectedError():
            return FailureKind.REFUSED
        case ai.ModelHTTPError(status_code=status):
            return _kind_of_status(status)
        case ai.ModelAPIError():
            # VoyageAI's own error has it where pydantic-ai has no class for the status.
            return _kind_of_status(getattr(error.__cause__, "http_status", None))
        case ai.UserError() | ImportError() | NotImplementedError():
            return FailureKind.UNAVAILABLE
        case _:
            return FailureKind.TRANSIENT


def retry_after_of(error: BaseException) -> float | None:
    """Give the seconds a provider asked to wait, in a header or in its answer."""
    from pydantic_ai.exceptions import ModelAPIError

    return error.retry_after if isinstance(error, ModelAPIError) else None


def _kind_of_status(status: int | None) -> FailureKind:
    if status is None:
        return FailureKind.TRANSIENT
    if status in _REFUSED_STATUSES:
        return FailureKind.REFUSED
    if status in _TRANSIENT_STATUSES or status >= 500:
        return FailureKind.TRANSIENT
    return FailureKind.UNAVAILABLE
