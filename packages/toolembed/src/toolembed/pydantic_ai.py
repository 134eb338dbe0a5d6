"""The static model as a pydantic-ai model, for use with pydantic-ai's own `Embedder`.

::

    from pydantic_ai import Embedder

    embedder = Embedder(StaticEmbeddingModel())
    result = await embedder.embed_query("merge two pdf files")
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from toolembed._static import MODEL_ID, StaticEmbedder
from toolembed.providers import InstallHints

try:
    from pydantic_ai.embeddings import EmbeddingModel, EmbeddingResult
except ModuleNotFoundError as _error:
    raise InstallHints().not_here(_error) from _error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic_ai.embeddings import EmbeddingSettings
    from pydantic_ai.embeddings.result import EmbedInputType

__all__ = ["StaticEmbeddingModel"]


class StaticEmbeddingModel(EmbeddingModel):
    """The static vectors behind pydantic-ai's embedding interface."""

    def __init__(self, *, settings: EmbeddingSettings | None = None) -> None:
        super().__init__(settings=settings)
        self._embedder = StaticEmbedder()

    @property
    def system(self) -> str:
        """The provider's part of the model's name."""
        return MODEL_ID.partition(":")[0]

    @property
    def model_name(self) -> str:
        """The model's part of its name."""
        return MODEL_ID.partition(":")[2]

    async def embed(
        self,
        inputs: str | Sequence[str],
        *,
        input_type: EmbedInputType,
        settings: EmbeddingSettings | None = None,
    ) -> EmbeddingResult:
        """Embed queries or documents."""
        texts, _ = self.prepare_embed(inputs, settings)
        static = self._embedder
        encode = static.encode_queries if input_type == "query" else static.encode_documents
        return EmbeddingResult(
            embeddings=await asyncio.to_thread(encode, texts),
            inputs=texts,
            input_type=input_type,
            model_name=self.model_name,
            provider_name=self.system,
        )
