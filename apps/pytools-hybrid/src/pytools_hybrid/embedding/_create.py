"""From the model setting to an embedder."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pytools_hybrid.embedding._provider import EXTRAS, RENAMED_PROVIDERS, ProviderEmbedder
from pytools_hybrid.embedding._static import DIMENSIONS, MODEL_NAME, StaticEmbedder

if TYPE_CHECKING:
    from toolindex import Embedder

__all__ = ["create_embedder", "is_known_provider"]

_log = logging.getLogger("pytools_hybrid")

# pydantic-ai knows more, and is asked about those; these cost no import.
_USUAL_PROVIDERS = frozenset(
    {*EXTRAS, *RENAMED_PROVIDERS, *RENAMED_PROVIDERS.values(), "bedrock", "ollama"}
)


def create_embedder(model: str, *, dimensions: int | None = None) -> Embedder | None:
    """Give the embedder for a model setting; nothing is loaded or connected yet.

    Args:
        model: `wordllama` for the offline default, `none` for no vectors, `test` for
            pydantic-ai's test model, or a pydantic-ai model string (`openai:…`).
        dimensions: The length of the vectors, where the model lets one choose.

    Returns:
        The embedder, or None for `none`.
    """
    if model == "none":
        return None
    if model == MODEL_NAME:
        if dimensions not in (None, DIMENSIONS):
            _log.warning("%s has %d dimensions; %d is ignored", model, DIMENSIONS, dimensions)
        return StaticEmbedder()
    return ProviderEmbedder(model, dimensions=dimensions)


def is_known_provider(model: str) -> bool:
    """Tell whether pydantic-ai has a provider of a `provider:model` name."""
    provider = model.partition(":")[0]
    if provider in _USUAL_PROVIDERS:
        return True
    from pydantic_ai.providers import infer_provider_class

    try:
        infer_provider_class(provider)
    except ValueError:
        return False
    except ImportError:
        # It is known; its package is missing, which the first text to embed will tell.
        pass
    return True
