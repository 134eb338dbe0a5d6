"""What the providers of embedding models take in one request, as their documentation says."""

from __future__ import annotations

from dataclasses import replace

from toolindex import EmbeddingLimits

__all__ = ["DOWNLOADING_PROVIDERS", "limits_of"]

# Those that run in this process: they fetch a model that is not on the disk yet.
DOWNLOADING_PROVIDERS = frozenset({"sentence-transformers"})

# Less than most providers take: more saves no time, and a kill loses what is under way.
_BATCH = 64
_LOCAL = EmbeddingLimits(texts_per_request=_BATCH)
_REMOTE = EmbeddingLimits(texts_per_request=_BATCH, concurrency=2)

# The first prefix of a model's name counts. At most two batches are under way at once.
_BY_PREFIX = {
    "sentence-transformers:": _LOCAL,
    # It serves a local model, one request after the other.
    "ollama:": _LOCAL,
    # 2,048 texts and 300,000 tokens in a request, 8,191 tokens in a text.
    "openai:": EmbeddingLimits(
        texts_per_request=_BATCH, tokens_per_request=300_000, tokens_per_text=8_191, concurrency=2
    ),
    # 100 texts in a request (BatchEmbedContents), 2,048 tokens in a text.
    "google:": EmbeddingLimits(texts_per_request=_BATCH, tokens_per_text=2_048, concurrency=2),
    # One text in a request, which the SDK checks; 8,192 tokens in it.
    "google-cloud:gemini-embedding-2": EmbeddingLimits(
        texts_per_request=1, tokens_per_text=8_192, concurrency=4
    ),
    # 250 texts and 20,000 tokens in a request, 2,048 tokens in a text.
    "google-cloud:": EmbeddingLimits(
        texts_per_request=_BATCH, tokens_per_request=20_000, tokens_per_text=2_048, concurrency=2
    ),
    # 96 texts in a request; what is too long for the model is cut off by the provider.
    "cohere:": EmbeddingLimits(texts_per_request=_BATCH, concurrency=2),
    # 1,000 texts in a request, 120,000 tokens for the largest models, 32,000 tokens in a text
    # (16,000 for some).
    "voyageai:": EmbeddingLimits(
        texts_per_request=_BATCH, tokens_per_request=120_000, tokens_per_text=16_000, concurrency=2
    ),
    # 96 texts for Cohere's models; Amazon's take one text of 8,192 tokens at a time, and
    # pydantic-ai makes five such requests at once of one of ours.
    "bedrock:": EmbeddingLimits(texts_per_request=_BATCH, tokens_per_text=8_192),
    # 10 texts in a request.
    "alibaba:": EmbeddingLimits(texts_per_request=10, tokens_per_text=8_192, concurrency=4),
    "test": EmbeddingLimits(),
}
# It stands before the name of a provider, and takes what that one takes.
_GATEWAY = "gateway/"


def limits_of(model_id: str, *, requests_per_minute: float | None = None) -> EmbeddingLimits:
    """Give what a model takes in one request, by its provider and its name.

    Args:
        model_id: The model.
        requests_per_minute: How many requests it takes, which no name can tell.

    Raises:
        ValueError: It takes none.
    """
    name = model_id.removeprefix(_GATEWAY)
    known = (limits for prefix, limits in _BY_PREFIX.items() if name.startswith(prefix))
    return replace(next(known, _REMOTE), requests_per_minute=requests_per_minute)
