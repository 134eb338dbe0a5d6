"""The errors of this package; each message says what to do next."""

from __future__ import annotations

from enum import StrEnum

__all__ = [
    "DimensionsError",
    "DownloadError",
    "EmbeddingError",
    "FailureKind",
    "NotDownloadedError",
    "ToolEmbedError",
]


class ToolEmbedError(Exception):
    """Base class of every error raised by toolembed."""


class FailureKind(StrEnum):
    """What to do after an embedder has failed.

    Attributes:
        TRANSIENT: Try again later: no connection, too many requests.
        SLOW: Send fewer texts at once: the request timed out.
        REFUSED: Leave this text out: the model does not accept it.
        UNAVAILABLE: Fix the setup first: no key, no package, no such model, no credit.
    """

    TRANSIENT = "transient"
    SLOW = "slow"
    REFUSED = "refused"
    UNAVAILABLE = "unavailable"


class EmbeddingError(ToolEmbedError):
    """An embedding model returned no vectors; searches continue without them.

    Attributes:
        model: The model, as `Embedder.model_id` names it.
        reason: What went wrong, without the model.
        kind: What to do next.
        retry_after: The seconds that the provider asked to wait.
    """

    def __init__(
        self,
        model: str,
        reason: str,
        *,
        kind: FailureKind = FailureKind.TRANSIENT,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"embedding model {model!r}: {reason}")
        self.model = model
        self.reason = reason
        self.kind = kind
        self.retry_after = retry_after


class DimensionsError(ToolEmbedError):
    """The length of an embedding model's vectors has changed; earlier vectors are stored.

    Attributes:
        model_id: The model.
    """

    def __init__(self, model_id: str, message: str) -> None:
        super().__init__(f"embedding model {model_id!r} {message}")
        self.model_id = model_id


class NotDownloadedError(ToolEmbedError):
    """A model is missing on this machine, or incomplete; none is downloaded automatically."""


class DownloadError(ToolEmbedError):
    """A model could not be downloaded."""
