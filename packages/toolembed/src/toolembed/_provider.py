"""From a model's name to an embedder: ours, or any that pydantic-ai supports."""

from __future__ import annotations

import asyncio
import math
import os
import sys
import time
from array import array
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from toolembed._accurate import AccurateEmbedder
from toolembed._errors import EmbeddingError, FailureKind, redact_keys
from toolembed._static import StaticEmbedder
from toolembed.providers import (
    TEST_MODEL,
    InstallHints,
    check_provider,
    current_name,
    limits_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from openai.resources import AsyncEmbeddings
    from openai.types import CreateEmbeddingResponse
    from pydantic_ai.embeddings import Embedder as PydanticAIEmbedder
    from pydantic_ai.embeddings import EmbeddingModel
    from pydantic_ai.providers import Provider

    from toolembed._protocols import Embedder, EmbeddingLimits

_HINTS = InstallHints()
AnyProvider = TypeVar("AnyProvider", bound="Provider[Any]")

# Short, so that a recovered provider is soon noticed; a slow one gets smaller requests.
_REQUEST_SECONDS = 10.0
# It loads a model with the first request, and stops loading if that request times out.
_OLLAMA_SECONDS = 60.0
_OLLAMA = "ollama"
_OLLAMA_VARIABLE = "OLLAMA_BASE_URL"

_TRANSIENT_STATUSES = frozenset({408, 409, 425, 429})
_REFUSED_STATUSES = frozenset({400, 413, 422})
_LONGEST_WAIT = 3600.0


def create_embedder(
    model: str,
    *,
    dimensions: int | None = None,
    requests_per_minute: float | None = None,
    device: str = "auto",
    hints: InstallHints = _HINTS,
) -> Embedder | None:
    """Return the embedder for a model's name; nothing is loaded or connected yet.

    Args:
        model: `static`, which needs nothing else; `accurate` for the larger model (extra
            `accurate`); `none` for no vectors; `test` for pydantic-ai's test model; or a
            pydantic-ai model string (`openai:…`).
        dimensions: The length of the vectors, if the model supports different ones.
        requests_per_minute: How many requests the provider's plan allows; None for no limit. Our
            own models make none.
        device: Where a model of sentence-transformers runs: `auto`, `cpu`, `cuda`, `mps`.
        hints: The advice in its errors.

    Returns:
        The embedder, or None for `none`.

    Raises:
        ValueError: No requests are allowed.
    """
    if model == "none":
        return None
    if model in ("static", "accurate"):
        ours = StaticEmbedder() if model == "static" else AccurateEmbedder(hints=hints)
        if dimensions not in (None, ours.dimensions):
            import logging

            message = "%s has %d dimensions; %d is ignored"
            logging.getLogger("toolembed").warning(message, model, ours.dimensions, dimensions)
        return ours
    return ProviderEmbedder(
        model,
        dimensions=dimensions,
        requests_per_minute=requests_per_minute,
        device=device,
        hints=hints,
    )


class ProviderEmbedder:
    """Embeds through pydantic-ai, which is imported with the first text.

    `model` is a pydantic-ai model string (providers' older names work too), `test`, or an object.
    """

    def __init__(
        self,
        model: str | EmbeddingModel,
        *,
        dimensions: int | None = None,
        requests_per_minute: float | None = None,
        device: str = "auto",
        hints: InstallHints = _HINTS,
    ) -> None:
        self._model = model
        self._chosen = dimensions
        self._device = device
        self._hints = hints
        self._named = (
            current_name(model) if isinstance(model, str) else f"{model.system}:{model.model_name}"
        )
        self._found: int | None = None
        self.limits: EmbeddingLimits = limits_of(
            self.model_id, requests_per_minute=requests_per_minute
        )
        self._provider, _, self._name = self._named.partition(":")
        # Loading or downloading in this process is slow, and could not be interrupted.
        self._is_local = self._provider == "sentence-transformers"
        seconds = _OLLAMA_SECONDS if self._provider == _OLLAMA else _REQUEST_SECONDS
        self._request_seconds = None if self._is_local else seconds
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
        """Embed documents; a text without a vector from the provider gets an empty one."""
        vectors: list[list[float]] = []
        # If the caller divides texts by `limits`, each call is one request.
        for request in self.limits.requests(texts):
            vectors += await self._embed(request, is_query=False)
        return vectors

    async def embed_query(self, text: str) -> list[float]:
        (vector,) = await self._embed([self.limits.cut(text)], is_query=True)
        if not vector:
            raise EmbeddingError(self.model_id, "returned something other than a vector")
        return vector

    async def _embed(self, texts: Sequence[str], *, is_query: bool) -> list[list[float]]:
        vectors = await self._request(texts, is_query=is_query)
        lengths = {self.dimensions, *map(len, filter(None, vectors))} - {None}
        if len(vectors) != len(texts) or len(lengths) > 1:
            # Every request has to be paid for, and a second wrong answer is hardly an accident.
            vectors = await self._request(texts, is_query=is_query)
        reason, kind = f"gave {len(vectors)} vectors for {len(texts)} texts", FailureKind.REFUSED
        if len(vectors) == len(texts):
            given = [len(vector) for vector in vectors if vector]
            # One wrong answer must not make all later ones look wrong.
            expected = self._chosen or next(iter(given), self._found)
            if not {*given} - {expected}:
                self._found = expected
                return vectors
            found = " and ".join(map(str, sorted({*given})))
            reason = f"gave vectors of {found} dimensions where {expected} were expected"
            kind = FailureKind.UNAVAILABLE
        # A wrong number may be right with fewer texts.
        raise EmbeddingError(self.model_id, reason, kind=kind)

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
            kind = FailureKind.UNAVAILABLE if self._is_local else _kind_of(error)
            failure = self._failure(error, kind)
            # All requests wait, not only this one.
            again = time.monotonic() + (failure.retry_after or 0.0)
            self._asked_again_at = max(self._asked_again_at, again)
            raise failure from error
        return [_floats(vector) for vector in result.embeddings]

    def _failure(self, error: Exception, kind: FailureKind) -> EmbeddingError:
        retry_after = None
        if isinstance(error, ImportError):
            # Perhaps pydantic-ai itself is missing; then it cannot explain the error.
            reason = self._hints.what_to_do(self._named, error)
        else:
            lines = str(error).splitlines()
            reason = lines[0] if lines else type(error).__name__
            asked: object = getattr(error, "retry_after", None)
            if isinstance(asked, int | float) and math.isfinite(asked):
                retry_after = min(max(asked, 0.0), _LONGEST_WAIT)
            if isinstance(error, TimeoutError) and self._request_seconds is not None:
                reason = f"no answer within {self._request_seconds:g} s"
            elif self._provider == _OLLAMA:
                reason = _ollama_problem(error, self._name) or reason
        return EmbeddingError(
            self.model_id, redact_keys(reason), kind=kind, retry_after=retry_after
        )

    async def _created(self) -> PydanticAIEmbedder:
        """Return the embedder, which is loaded only once, even if a caller is cancelled."""
        task = self._creating
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._creating = asyncio.create_task(asyncio.to_thread(self._create))
        try:
            return await asyncio.shield(task)
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
        if self._is_local:
            from toolembed.downloads import load_model

            return load_model(self._name, device=self._device, hints=self._hints)
        if self._provider == _OLLAMA:
            from pydantic_ai.embeddings.openai import OpenAIEmbeddingModel
            from pydantic_ai.providers.ollama import OllamaProvider

            # No key is needed.
            provider = _adapted(OllamaProvider(base_url=_ollama_address()))
            return OpenAIEmbeddingModel(self._name, provider=provider)
        from pydantic_ai.embeddings import infer_embedding_model
        from pydantic_ai.providers import infer_provider

        check_provider(name)
        return infer_embedding_model(
            name, provider_factory=lambda provider: _adapted(infer_provider(provider))
        )


def _ollama_address() -> str:
    """Return the URL of Ollama's OpenAI-compatible endpoint.

    The variable may name the server alone, as Ollama's own documents do.
    """
    address = os.environ.get(_OLLAMA_VARIABLE, "").strip().rstrip("/") or "http://localhost:11434"
    return address if urlsplit(address).path else f"{address}/v1"


def _ollama_problem(error: Exception, name: str) -> str | None:
    """Return what to do after a failure of Ollama, or None if its message is good enough."""
    from shlex import quote

    from pydantic_ai.exceptions import ModelConnectionError, ModelNotFoundError

    if isinstance(error, ModelNotFoundError):
        return f"Ollama does not have it; run: ollama pull {quote(name)}"
    if isinstance(error, ModelConnectionError):
        return (
            f"Ollama does not answer at {_ollama_address()}; start it (ollama serve), or set "
            f"{_OLLAMA_VARIABLE}"
        )
    return None


def _adapted(provider: AnyProvider) -> AnyProvider:
    """Adapt a client of the package `openai`: no retries, and vectors in the order of their texts.

    Our caller decides when to retry: the client would wait as long as the provider asks, as if the
    provider did not answer.
    """
    # If it has not been imported, the provider does not use it.
    if "openai" in sys.modules:
        from openai import AsyncOpenAI

        client = provider.client
        if isinstance(client, AsyncOpenAI):
            client.max_retries = 0
            vars(client)["embeddings"] = _InOrder(client.embeddings)
    return provider


class _InOrder:
    """A client's embeddings, sorted by their index; pydantic-ai does not sort them."""

    def __init__(self, embeddings: AsyncEmbeddings) -> None:
        self._embeddings = embeddings

    async def create(self, **arguments: Any) -> CreateEmbeddingResponse:  # noqa: ANN401 - passed on
        answer = await self._embeddings.create(**arguments)
        by_index = {row.index: row for row in answer.data}
        # Some servers give every row the index 0.
        if by_index.keys() == set(range(len(answer.data))):
            answer.data = [by_index[index] for index in range(len(answer.data))]
        return answer


def _kind_of(error: BaseException) -> FailureKind:
    """Classify an error of pydantic-ai, of a provider's package or of the network.

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
        case ai.ModelAPIError():
            # VoyageAI's own error has the status for which pydantic-ai has no class.
            of_cause = getattr(error.__cause__, "http_status", None)
            status = error.status_code if isinstance(error, ai.ModelHTTPError) else of_cause
            if status is None or status in _TRANSIENT_STATUSES or status >= 500:
                return FailureKind.TRANSIENT
            is_refusal = status in _REFUSED_STATUSES
            return FailureKind.REFUSED if is_refusal else FailureKind.UNAVAILABLE
        case ai.UserError() | ImportError() | NotImplementedError():
            return FailureKind.UNAVAILABLE
        case ValueError() | TypeError():
            # An invalid answer; the answer for other texts may be valid.
            return FailureKind.REFUSED
        case _:
            return FailureKind.TRANSIENT


def _floats(vector: Iterable[float]) -> list[float]:
    """Return a vector as a list, or an empty list for anything else."""
    try:
        return list(array("d", vector))
    except (TypeError, ValueError, OverflowError):
        return []
