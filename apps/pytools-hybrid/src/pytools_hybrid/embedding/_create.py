"""From the model setting to an embedder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytools_hybrid.embedding._static import MODEL_NAME, StaticEmbedder

if TYPE_CHECKING:
    from toolindex import Embedder

__all__ = ["create_embedder"]


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
        return StaticEmbedder()
    from pytools_hybrid.embedding._provider import ProviderEmbedder

    return ProviderEmbedder(model, dimensions=dimensions)
