"""Text to vectors: an offline model, and any model that pydantic-ai supports.

Create an embedder from a model's name, and embed the texts of a store that have no vector yet::

    embedder = create_embedder("static")
    await embed_pending(store, embedder, limits=embedder.limits)

Embedders: `create_embedder`, `StaticEmbedder`, `AccurateEmbedder`;
the `Embedder` protocol, and `LimitedEmbedder` for one that has `EmbeddingLimits`.
`toolembed.testing.check_embedder` checks one,
`toolembed.pydantic_ai` has the offline model for pydantic-ai's own `Embedder`.
Embedding a store: `embed_pending`, `EmbeddingReport`, `RefusedText`; the protocols of a store,
`PendingTexts` and `WorkLease`.
Failures: `ToolEmbedError` and its kinds, `FailureKind`, `Backoff`, `CircuitBreaker`,
`without_keys`.
Providers: `toolembed.providers` describes each. Models on this machine:
`downloaded_models`, `DownloadedModel`, `download_model`, `ollama_address`.

Importing this package imports neither numpy nor pydantic-ai; each comes with the first text that
needs it. Models that run on this machine are never downloaded unasked.
"""

from typing import TYPE_CHECKING

from toolembed.errors import (
    DimensionsError,
    DownloadError,
    EmbeddingError,
    FailureKind,
    NotDownloadedError,
    ToolEmbedError,
)

if TYPE_CHECKING:
    from toolembed._accurate import AccurateEmbedder
    from toolembed._backoff import Backoff, CircuitBreaker
    from toolembed._create import create_embedder
    from toolembed._downloads import DownloadedModel, download_model, downloaded_models
    from toolembed._embed import EmbeddingReport, RefusedText, embed_pending
    from toolembed._keys import without_keys
    from toolembed._ollama import ollama_address
    from toolembed._static import StaticEmbedder
    from toolembed.protocols import (
        Embedder,
        EmbeddingLimits,
        LimitedEmbedder,
        PendingTexts,
        WorkLease,
    )
else:
    # Imported at its first use: programs that only name a model need not wait for the embedder.
    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_HOMES})


__all__ = [
    "AccurateEmbedder",
    "Backoff",
    "CircuitBreaker",
    "DimensionsError",
    "DownloadError",
    "DownloadedModel",
    "Embedder",
    "EmbeddingError",
    "EmbeddingLimits",
    "EmbeddingReport",
    "FailureKind",
    "LimitedEmbedder",
    "NotDownloadedError",
    "PendingTexts",
    "RefusedText",
    "StaticEmbedder",
    "ToolEmbedError",
    "WorkLease",
    "create_embedder",
    "download_model",
    "downloaded_models",
    "embed_pending",
    "ollama_address",
    "without_keys",
]

_HOMES = {
    name: module
    for module, names in {
        "_accurate": "AccurateEmbedder",
        "_backoff": "Backoff CircuitBreaker",
        "_create": "create_embedder",
        "_downloads": "DownloadedModel download_model downloaded_models",
        "_embed": "EmbeddingReport RefusedText embed_pending",
        "_keys": "without_keys",
        "_ollama": "ollama_address",
        "_static": "StaticEmbedder",
        "protocols": "Embedder EmbeddingLimits LimitedEmbedder PendingTexts WorkLease",
    }.items()
    for name in names.split()
}
