"""Classifying errors of pydantic-ai, of providers' packages and of the network."""

from __future__ import annotations

import math

from toolembed.errors import FailureKind

_TRANSIENT_STATUSES = frozenset({408, 409, 425, 429})
_LONGEST_WAIT = 3600.0
_REFUSED_STATUSES = frozenset({400, 413, 422})


def kind_of(error: BaseException) -> FailureKind:
    """Return what to do after a failed request: retry, leave the text out, or fix the setup.

    An unknown failure is retried: retries are bounded, and cost the least.
    """
    from pydantic_ai import exceptions as ai

    match error:
        # The order matters: the first two are kinds of rejected requests too.
        case ai.ModelAuthenticationError() | ai.ModelNotFoundError() | ai.ModelQuotaExceededError():
            return FailureKind.UNAVAILABLE
        case ai.ModelTimeoutError() | TimeoutError():
            return FailureKind.SLOW
        case ai.ModelRequestRejectedError():
            return FailureKind.REFUSED
        case ai.ModelHTTPError(status_code=status):
            return _kind_of_status(status)
        case ai.ModelAPIError():
            # VoyageAI's own error has the status for which pydantic-ai has no class.
            return _kind_of_status(getattr(error.__cause__, "http_status", None))
        case ai.UserError() | ImportError() | NotImplementedError():
            return FailureKind.UNAVAILABLE
        case ValueError() | TypeError():
            # An invalid answer; the answer for other texts may be valid.
            return FailureKind.REFUSED
        case _:
            return FailureKind.TRANSIENT


def retry_after_of(error: BaseException) -> float | None:
    """Return the seconds a provider asked to wait, an hour at most, or None."""
    from pydantic_ai.exceptions import ModelAPIError

    asked = error.retry_after if isinstance(error, ModelAPIError) else None
    if asked is None or not math.isfinite(asked):
        return None
    return min(max(asked, 0.0), _LONGEST_WAIT)


def _kind_of_status(status: int | None) -> FailureKind:
    if status is None:
        return FailureKind.TRANSIENT
    if status in _REFUSED_STATUSES:
        return FailureKind.REFUSED
    if status in _TRANSIENT_STATUSES or status >= 500:
        return FailureKind.TRANSIENT
    return FailureKind.UNAVAILABLE
