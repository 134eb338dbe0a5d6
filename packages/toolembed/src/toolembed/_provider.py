"""Any embedding model that pydantic-ai supports, as an `Embedder`."""

from __future__ import annotations

import asyncio
import sys
import time
from array import array
from typing import TYPE_CHECKING, Any, TypeVar

from toolembed._failures import kind_of, retry_after_of
from toolembed._keys import without_keys
from toolembed._ollama import OLLAMA, ollama_model, ollama_problem
from toolembed.errors import EmbeddingError, FailureKind
from toolembed.providers import (
    TEST_MODEL,
    Remedies,
    check_known_provider,
    current_name,
    limits_of,
    provider_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pydantic_ai.embeddings import Embedder as PydanticAIEmbedder
    from pydantic_ai.embeddings import EmbeddingModel
    from pydantic_ai.providers import Provider

    from toolembed.protocols import EmbeddingLimits

_REMEDIES = Remedies()
AnyProvider = TypeVar("AnyProvider", bound="Provider[Any]")

# Short, so that a recovered provider is soon noticed; a slow one gets smaller requests.
_REQUEST_SECONDS = 10.0
# It loads a model with the first request, and stops loading if that request times out.
_OLLAMA_SECONDS = 60.0


class ProviderEmbedder:
    """Embeds through pydantic-ai, which is imported with the first text.

    Args:
        model: A pydantic-ai model string (`openai:text-embedding-3-small`; providers' older
            names work too), `test`, or a model object.
        dimensions: The length of the vectors, if the model supports different ones.
        requests_per_minute: How many requests it accepts; None for no limit.
        request_seconds: How long a provider may take for a request; None for the default.
        device: Where a model of sentence-transformers runs: `auto`, `cpu`, `cuda`, `mps`.
        remedies: The advice in its errors.

    Attributes:
        limits: The provider's limits, for one request and per minute.
    """

    def __init__(
        self,
        model: str | EmbeddingModel,
        *,
        dimensions: int | None = None,
        requests_per_minute: float | None = None,
        request_seconds: float | None = None,
        device: str = "auto",
        remedies: Remedies = _REMEDIES,
    ) -> None:
        self._model = model
        self._chosen = dimensions
        self._device = device
        self._remedies = remedies
        self._named = (
            current_name(model) if isinstance(model, str) else f"{model.system}:{model.model_name}"
        )
        self._found: int | None = None
        self.limits: EmbeddingLimits = limits_of(
            self.model_id, requests_per_minute=requests_per_minute
        )
        self._provider, _, self._name = self._named.partition(":")
        # Loading or downloading in this process is slow, and could not be interrupted.
        self._is_local = provider_of(self._named).downloads
        usual = _OLLAMA_SECONDS if self._provider == OLLAMA else _REQUEST_SECONDS
        self._request_seconds = None if self._is_local else request_seconds or usual
        self._asked_again_at = 0.0
        self._creating: asyncio.Task[PydanticAIEmbedder] | None = None

    @property
    def model_id(self) -> str:
        """The model, and the chosen dimensions after an `@`."""
        return self._named if self._chosen is None else f"{self._named}@{self._chosen}"

    @property
    def dimensions(self) -> int | None:
        """The chosen length of the vectors, or the length of the first one; None before it."""
        return self._chosen or self._found

    async def load(self) -> None:
        """Load the provider's client, so that requests only have to wait for answers."""
        await self._created()

    async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed documents, in requests that the provider accepts.

        A text without a vector from the provider gets an empty one.

        Raises:
            EmbeddingError: The provider cannot be reached or used, refuses a text, or returned a
                wrong number of vectors or dimensions.
        """
        vectors: list[list[float]] = []
        # If the caller divides texts by `limits`, each call is one request.
        for request in self.limits.requests(texts):
            vectors += await self._embed(request, is_query=False)
        return vectors

    async def embed_query(self, text: str) -> list[float]:
        """Embed a query."""
        (vector,) = await self._embed([self.limits.cut(text)], is_query=True)
        if not vector:
            raise EmbeddingError(self.model_id, "returned something other than a vector")
        return vector

    async def _embed(self, texts: Sequence[str], *, is_query: bool) -> list[list[float]]:
        vectors = await self._request(texts, is_query=is_query)
        if len(vectors) != len(texts) or not self._is_as_before(vectors):
            # Every request has to be paid for, and a second wrong answer is hardly an accident.
            vectors = await self._request(texts, is_query=is_query)
        self._check(vectors, len(texts))
        return vectors

    async def _request(self, texts: Sequence[str], *, is_query: bool) -> list[list[float]]:
        embedder = await self._created()
        wait = self._asked_again_at - time.monotonic()
        if wait > 0:
            reason = f"asked not to be called for another {wait:.0f} s"
            raise EmbeddingError(self.model_id, reason, retry_after=wait)
        embed = embedder.embed_query if is_query else embedder.embed_documents
        try:
            async with asyncio.timeout(self._request_seconds):
                result = await embed(texts)
        except Exception as error:
            # Providers raise their own errors, in addition to those of pydantic-ai.
            kind = FailureKind.UNAVAILABLE if self._is_local else kind_of(error)
            failure = self._failure(error, kind)
            # All requests wait, not only this one.
            again = time.monotonic() + (failure.retry_after or 0.0)
            self._asked_again_at = max(self._asked_again_at, again)
            raise failure from error
        return [_numbers(vector) for vector in result.embeddings]

    def _is_as_before(self, vectors: list[list[float]]) -> bool:
        given = [len(vector) for vector in vectors if vector]
        return all(length == (self.dimensions or given[0]) for length in given)

    def _check(self, vectors: list[list[float]], texts: int) -> None:
        if len(vectors) != texts:
            raise EmbeddingError(
                self.model_id,
                f"gave {len(vectors)} vectors for {texts} texts",
                # It may be right with fewer texts.
                kind=FailureKind.REFUSED,
            )
        lengths = {len(vector) for vector in vectors if vector}
        if not lengths:
            return
        # One wrong answer must not make all later ones look wrong.
        expected = self._chosen or len(next(filter(None, vectors)))
        if lengths != {expected}:
            found = " and ".join(map(str, sorted(lengths)))
            raise EmbeddingError(
                self.model_id,
                f"gave vectors of {found} dimensions where {expected} were expected",
                kind=FailureKind.UNAVAILABLE,
            )
        self._found = expected

    def _failure(self, error: Exception, kind: FailureKind) -> EmbeddingError:
        if isinstance(error, ImportError):
            # Perhaps pydantic-ai itself is missing; then it cannot explain the error.
            reason = without_keys(self._remedies.what_to_do(self._named, error))
            return EmbeddingError(self.model_id, reason, kind=kind)
        if isinstance(error, TimeoutError) and self._request_seconds is not None:
            reason = f"no answer within {self._request_seconds:g} s"
        elif self._provider == OLLAMA and (hint := ollama_problem(error, self._name)):
            reason = hint
        else:
            lines = str(error).splitlines()
            reason = lines[0] if lines else type(error).__name__
        return EmbeddingError(
            self.model_id, without_keys(reason), kind=kind, retry_after=retry_after_of(error)
        )

    async def _created(self) -> PydanticAIEmbedder:
        """Return the embedder, which is loaded only once, even if a caller is cancelled."""
        if self._creating is None or _has_failed(self._creating):
            self._creating = asyncio.create_task(asyncio.to_thread(self._create))
        try:
            return await asyncio.shield(self._creating)
        except Exception as error:
            # A missing key, package or provider each raise a different error.
            raise self._failure(error, FailureKind.UNAVAILABLE) from error

    def _create(self) -> PydanticAIEmbedder:
        from pydantic_ai.embeddings import Embedder, EmbeddingSettings, TestEmbeddingModel

        settings = EmbeddingSettings()
        if self._chosen is not None:
            settings["dimensions"] = self._chosen
        if self._model == TEST_MODEL:
            return Embedder(TestEmbeddingModel(dimensions=self._chosen or 8))
        model = self._model
        if isinstance(model, str):
            model = self._model_of(current_name(model))
            # Our cut is an estimate; providers that can do so cut off the rest.
            settings["truncate"] = True
        return Embedder(model, settings=settings)

    def _model_of(self, name: str) -> EmbeddingModel:
        """Return our own model if pydantic-ai's would download files or lack the address."""
        if self._provider == "sentence-transformers":
            from toolembed._sentence_transformers import SentenceTransformersModel

            local = SentenceTransformersModel(
                self._name, device=self._device, remedies=self._remedies
            )
            local.load()
            return local
        if self._provider == OLLAMA:
            return ollama_model(self._name, _adapted)
        from pydantic_ai.embeddings import infer_embedding_model
        from pydantic_ai.providers import infer_provider

        check_known_provider(name)
        return infer_embedding_model(
            name, provider_factory=lambda provider: _adapted(infer_provider(provider))
        )


def _adapted(provider: AnyProvider) -> AnyProvider:
    # If it has not been imported, the provider does not use it.
    if "openai" in sys.modules:
        from toolembed._openai import adapt

        adapt(provider.client)
    return provider


def _numbers(vector: Iterable[float]) -> list[float]:
    """Return a vector as a list, or an empty list for anything else."""
    try:
        return list(array("d", vector))
    except (TypeError, ValueError, OverflowError):
        return []


def _has_failed(task: asyncio.Task[PydanticAIEmbedder]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
