"""Any embedding model that pydantic-ai knows, as a `toolindex.Embedder`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytools_hybrid.errors import EmbeddingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic_ai.embeddings import Embedder as PydanticAIEmbedder
    from pydantic_ai.embeddings import EmbeddingModel

__all__ = ["EXTRAS", "RENAMED_PROVIDERS", "ProviderEmbedder"]

_REQUEST_TEXTS = 64
EXTRAS = frozenset({"openai", "google", "cohere", "voyageai", "sentence-transformers"})
RENAMED_PROVIDERS = {"google-gla": "google", "google-vertex": "google-cloud"}


class ProviderEmbedder:
    """Embeds through pydantic-ai; the library is imported with the first text.

    Args:
        model: A pydantic-ai model string (`openai:text-embedding-3-small`; providers' older
            names work too), `test`, or a model object.
        dimensions: The length of the vectors, where the model lets one choose.
    """

    def __init__(self, model: str | EmbeddingModel, *, dimensions: int | None = None) -> None:
        self._model = model
        self._dimensions = dimensions
        self._creating: asyncio.Task[PydanticAIEmbedder] | None = None

    @property
    def model_id(self) -> str:
        """The model, and the chosen dimensions after an `@`."""
        if isinstance(self._model, str):
            name = _current_name(self._model)
        else:
            name = f"{self._model.system}:{self._model.model_name}"
        return name if self._dimensions is None else f"{name}@{self._dimensions}"

    async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed texts that will be searched for, a request for each 64.

        Raises:
            EmbeddingError: The provider cannot be reached, used, or gave the wrong number.
        """
        vectors: list[list[float]] = []
        for start in range(0, len(texts), _REQUEST_TEXTS):
            vectors += await self._embed(texts[start : start + _REQUEST_TEXTS], is_query=False)
        return vectors

    async def embed_query(self, text: str) -> list[float]:
        """Embed a text that searches.

        Raises:
            EmbeddingError: As for documents.
        """
        return (await self._embed([text], is_query=True))[0]

    async def _embed(self, texts: Sequence[str], *, is_query: bool) -> list[list[float]]:
        clean = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        try:
            embedder = await self._created()
            embed = embedder.embed_query if is_query else embedder.embed_documents
            result = await embed(clean)
        except Exception as error:
            # Providers raise errors of their own kinds: HTTP, missing key, missing package.
            raise EmbeddingError(self.model_id, self._explained(error)) from error
        if len(result.embeddings) != len(texts):
            raise EmbeddingError(
                self.model_id, f"gave {len(result.embeddings)} vectors for {len(texts)} texts"
            )
        return [list(vector) for vector in result.embeddings]

    def _explained(self, error: Exception) -> str:
        extra = self.model_id.partition(":")[0]
        if isinstance(error, ImportError) and extra in EXTRAS:
            return f'its package is missing; pip install "pytools-hybrid[{extra}]"'
        return _first_line(error)

    async def _created(self) -> PydanticAIEmbedder:
        """Give the one embedder, loading it once; who is in a hurry does not stop the loading."""
        if self._creating is None or (self._creating.done() and self._creating.exception()):
            self._creating = asyncio.create_task(asyncio.to_thread(self._create))
        return await asyncio.shield(self._creating)

    def _create(self) -> PydanticAIEmbedder:
        from pydantic_ai.embeddings import Embedder, EmbeddingSettings, TestEmbeddingModel

        settings = EmbeddingSettings()
        if self._dimensions is not None:
            settings["dimensions"] = self._dimensions
        if self._model == "test":
            return Embedder(TestEmbeddingModel(dimensions=self._dimensions or 8))
        model = _current_name(self._model) if isinstance(self._model, str) else self._model
        return Embedder(model, settings=settings)


def _current_name(model: str) -> str:
    provider, colon, name = model.partition(":")
    return f"{RENAMED_PROVIDERS.get(provider, provider)}{colon}{name}"


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__
