"""From the model setting to an embedder."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from toolembed._accurate import AccurateEmbedder
from toolembed._provider import ProviderEmbedder
from toolembed._static import MODEL_ID, StaticEmbedder
from toolembed.providers import ACCURATE, OFFLINE, Remedies, is_provider, provider_of

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


def stand_in(
    model_id: str, wanted: str, *, remedies: Remedies = _REMEDIES
) -> LimitedEmbedder | None:
    """Return an embedder that can search another model's vectors while the wanted ones are made.

    Only one that causes no unexpected cost: the offline default, or a model of the same provider as
    the wanted one, unless using it could mean a download.

    Args:
        model_id: The `model_id` of the model whose vectors exist.
        wanted: The `model_id` of the embedder that is to be used.
        remedies: The advice in its errors.

    Returns:
        The embedder, or None where only the wanted one will do.
    """
    if model_id == wanted:
        return None
    if model_id == MODEL_ID:
        return StaticEmbedder()
    provider = model_id.partition(":")[0]
    if provider != wanted.partition(":")[0] or provider_of(model_id).downloads:
        return None
    if provider in (OFFLINE, ACCURATE) or not (
        provider_of(model_id).embeds or is_provider(provider)
    ):
        return None
    model, dimensions = _parsed(model_id)
    return ProviderEmbedder(model, dimensions=dimensions, remedies=remedies)


def _parsed(model_id: str) -> tuple[str, int | None]:
    """Take a `model_id` apart into the model's name and the chosen dimensions."""
    chosen = re.fullmatch(r"(.+)@([1-9][0-9]*)", model_id)
    return (chosen[1], int(chosen[2])) if chosen else (model_id, None)
