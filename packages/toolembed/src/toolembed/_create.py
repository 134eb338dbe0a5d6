"""From the model setting to an embedder."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from toolembed._accurate import AccurateEmbedder
from toolembed._provider import ProviderEmbedder
from toolembed._static import StaticEmbedder
from toolembed.providers import ACCURATE, OFFLINE, Remedies

if TYPE_CHECKING:
    from toolembed.protocols import LimitedEmbedder

_log = logging.getLogger("toolembed")

_REMEDIES = Remedies()


def create_embedder(
    model: str,
    *,
    dimensions: int | None = None,
    requests_per_minute: float | None = None,
    device: str = "auto",
    remedies: Remedies = _REMEDIES,
) -> LimitedEmbedder | None:
    """Return the embedder for a model's name; nothing is loaded or connected yet.

    Args:
        model: `static` for the offline default, `accurate` for the larger offline model (extra
            `accurate`), `none` for no vectors, `test` for pydantic-ai's test model, or a
            pydantic-ai model string (`openai:…`).
        dimensions: The length of the vectors, if the model supports different ones.
        requests_per_minute: How many requests the provider's plan allows; None for no limit. The
            offline models make none.
        device: Where a model of sentence-transformers runs: `auto`, `cpu`, `cuda`, `mps`.
        remedies: The advice in its errors.

    Returns:
        The embedder, or None for `none`.

    Raises:
        ValueError: No requests are allowed.
    """
    if model == "none":
        return None
    if model in (OFFLINE, ACCURATE):
        ours = StaticEmbedder() if model == OFFLINE else AccurateEmbedder(remedies=remedies)
        if dimensions not in (None, ours.dimensions):
            _log.warning("%s has %d dimensions; %d is ignored", model, ours.dimensions, dimensions)
        return ours
    return ProviderEmbedder(
        model,
        dimensions=dimensions,
        requests_per_minute=requests_per_minute,
        device=device,
        remedies=remedies,
    )
