"""Protocols: embedders, which turn text into vectors, and stores of texts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

# Prose has 4 to 5 bytes of UTF-8 for each token, Chinese about 3, identifiers about 3.
_BYTES_PER_TOKEN = 3


class Embedder(Protocol):
    """Turns texts into vectors of one length.

    An implementation returns one vector for each text, in order, all of one length, each
    finite and not all zeros in single precision; the same text has the same vector. Any text is
    accepted, even with characters that cannot be encoded. A failure raises `EmbeddingError`, whose
    kind says what to do next. `toolembed.testing.check_embedder` checks all but the errors.
    """

    @property
    def model_id(self) -> str:
        """Names the model and everything that affects its vectors, which are stored under it."""
        ...

    @property
    def dimensions(self) -> int | None:
        """The length of the vectors; None before the first text if it is not known yet."""
        ...

    @property
    def limits(self) -> EmbeddingLimits:
        """The limits of a request, and of the number of requests."""
        ...

    async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed documents."""
        ...

    async def embed_query(self, text: str) -> list[float]:
        """Embed a query."""
        ...


class WorkLease(Protocol):
    """The right to do one kind of work, held by one process at a time."""

    def acquire(self, *, timeout: float) -> bool:
        """Acquire it if possible in time; 0 tries once. It is released if its holder dies."""
        ...

    def release(self) -> None:
        """Release it."""
        ...


class PendingTexts(Protocol):
    """The methods of a store that `embed_pending` calls, in worker threads."""

    def pending(
        self, model_id: str, *, limit: int, among: Collection[str] | None = None
    ) -> Mapping[str, str]:
        """Return up to `limit` texts, by hash, that this model has neither embedded nor refused.

        If hashes are given, only those texts.
        """
        ...

    def count_pending(self, model_id: str) -> int:
        """Count them; called only once, and only if progress is shown."""
        ...

    def refuse(self, model_id: str, reasons: Mapping[str, str]) -> None:
        """Store why a model returned no vector for some texts, by hash: these are not pending.

        They are pending again after a minute, and after longer each time they are refused.
        """
        ...

    def put_vectors(self, model_id: str, vectors: Mapping[str, Sequence[float]]) -> None:
        """Store vectors by the hash of their text, so that these are no longer pending."""
        ...

    def lease(self, purpose: str) -> WorkLease:
        """Return the lease of one kind of work on this store."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingLimits:
    """The limits of an embedding model, which no request exceeds.

    Tokens are estimated as one for every three bytes of UTF-8, which is more than most texts have.

    Attributes:
        texts_per_request: Texts in one request. A kill loses one request, so this should be less
            than what the provider accepts.
        tokens_per_request: Tokens of all texts of a request together; None if unlimited.
        tokens_per_text: Tokens of one text, the rest of which is cut off; None if unlimited.
        concurrency: Concurrent requests.
        requests_per_minute: Requests started in a minute, spread evenly; None if unlimited.
    """

    texts_per_request: int = 64
    tokens_per_request: int | None = None
    tokens_per_text: int | None = None
    concurrency: int = 1
    requests_per_minute: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not value > 0:
                raise ValueError(f"{field.name} must be positive, got {value}")

    def cut(self, text: str) -> str:
        """Return the part of a text that the model accepts, without characters it cannot encode."""
        encoded = text.encode("utf-8", "replace")
        if self.tokens_per_text is not None:
            encoded = encoded[: self.tokens_per_text * _BYTES_PER_TOKEN]
        return encoded.decode("utf-8", "ignore")

    def requests(self, texts: Iterable[str]) -> Iterator[list[str]]:
        """Yield the texts of each request, in order, each cut; a single text always fits.

        The texts of one request stay one request if they are divided again.
        """
        request: list[str] = []
        tokens = 0
        for text in map(self.cut, texts):
            size = -(-len(text.encode()) // _BYTES_PER_TOKEN)
            full = len(request) == self.texts_per_request
            heavy = self.tokens_per_request is not None and tokens + size > self.tokens_per_request
            if request and (full or heavy):
                yield request
                request, tokens = [], 0
            request.append(text)
            tokens += size
        if request:
            yield request
