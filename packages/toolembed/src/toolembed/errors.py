"""The errors this package raises; each message names the next thing to do."""

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
        TRANSIENT: Try again in a while: no connection, too many requests.
        SLOW: Ask for fewer texts at once: no answer came in time.
        REFUSED: Leave this text out: the model does not take it.
        UNAVAILABLE: Fix the setup first: no key, no package, no such model, no credit.
    """

    TRANSIENT = "transient"
    SLOW = "slow"
    REFUSED = "refused"
    UNAVAILABLE = "unavailable"


class EmbeddingError(ToolEmbedError):
    """An embedding model gave no vectors; search goes on without them.

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
    """An embedding model gave vectors of another length than before; those before are stored.

    Attributes:
        model_id: The model that gave them.
    """

    def __init__(self, model_id: str, message: str) -> None:
        super().__init__(f"embedding model {model_id!r} {message}")
        self.model_id = model_id


class NotDownloadedError(ToolEmbedError):
    """A model is missing on this machine, or incomplete; none is downloaded unasked."""


class DownloadError(ToolEmbedError):
    """A model could not be fetched."""
