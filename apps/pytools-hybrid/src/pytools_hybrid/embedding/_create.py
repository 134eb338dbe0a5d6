"""From the model setting to an embedder."""

from __future__ import annotations

import logging
import re
from typing import Protocol

from toolindex import Embedder, EmbeddingLimits

from pytools_hybrid.embedding._limits import DOWNLOADING_PROVIDERS
from pytools_hybrid.embedding._provider import ProviderEmbedder
from pytools_hybrid.embedding._static import DIMENSIONS, MODEL_ID, MODEL_NAME, StaticEmbedder
from pytools_hybrid.providers import EXTRAS, check_provider, did_you_mean, is_provider

__all__ = [
    "LimitedEmbedder",
    "check_known_provider",
    "check_model_name",
    "create_embedder",
    "stand_in",
]

_log = logging.getLogger("pytools_hybrid")

# pydantic-ai knows more, and is asked about those; these cost no import.
_USUAL_PROVIDERS = frozenset({*EXTRAS, "bedrock"})
_OURS = (MODEL_NAME, "none")
_TEST_MODEL = "test"


class LimitedEmbedder(Embedder, Protocol):
    """A `toolindex.Embedder` that says what its model takes."""

    @property
    def limits(self) -> EmbeddingLimits:
        """What may be in one request, and how many requests there may be."""
        ...


def create_embedder(
    model: str,
    *,
    dimensions: int | None = None,
    requests_per_minute: float | None = None,
    device: str = "auto",
) -> LimitedEmbedder | None:
    """Give the embedder for a model setting; nothing is loaded or connected yet.

    Args:
        model: `wordllama` for the offline default, `none` for no vectors, `test` for
            pydantic-ai's test model, or a pydantic-ai model string (`openai:…`).
        dimensions: The length of the vectors, where the model lets one choose.
        requests_per_minute: How many requests the provider's plan allows; None where nobody
            counts. The offline default makes none.
        device: Where a model of sentence-transformers runs: `auto`, `cpu`, `cuda`, `mps`.

    Returns:
        The embedder, or None for `none`.

    Raises:
        ValueError: No requests are allowed.
    """
    if model == "none":
        return None
    if model == MODEL_NAME:
        if dimensions not in (None, DIMENSIONS):
            _log.warning("%s has %d dimensions; %d is ignored", model, DIMENSIONS, dimensions)
        return StaticEmbedder()
    return ProviderEmbedder(
        model, dimensions=dimensions, requests_per_minute=requests_per_minute, device=device
    )


def stand_in(model_id: str, wanted: str) -> LimitedEmbedder | None:
    """Give an embedder that can search another model's vectors while the wanted ones are made.

    It costs nobody a surprise: the offline default, or a model of the provider that the wanted
    one has too, unless using it could mean downloading it.

    Args:
        model_id: The model whose vectors are there, as its `model_id` named it.
        wanted: The `model_id` of the embedder that is to be used.

    Returns:
        The embedder, or None where only the wanted one will do.
    """
    if model_id == wanted:
        return None
    if model_id == MODEL_ID:
        return StaticEmbedder()
    provider = model_id.partition(":")[0]
    if provider != wanted.partition(":")[0] or provider in DOWNLOADING_PROVIDERS:
        return None
    if provider == MODEL_NAME or not (provider in _USUAL_PROVIDERS or is_provider(provider)):
        return None
    model, dimensions = _parsed(model_id)
    return ProviderEmbedder(model, dimensions=dimensions)


def check_model_name(name: str) -> str:
    """Return a model setting if it has the form of one.

    Raises:
        ValueError: It names no provider.
    """
    if name in _OURS:
        return name
    if name != _TEST_MODEL and not all(name.partition(":")):
        alone = (*_OURS, _TEST_MODEL)
        raise ValueError(
            f"{name!r} names no provider{did_you_mean(name, alone)}; use PROVIDER:MODEL as in "
            f"'openai:text-embedding-3-small', or one of {', '.join(alone)}"
        )
    return name


def check_known_provider(name: str) -> None:
    """Raise if there can be no embedder for a model setting.

    Raises:
        ValueError: It names a provider that pydantic-ai does not know.
    """
    if name not in _OURS:
        check_provider(name, usual=_USUAL_PROVIDERS)


def _parsed(model_id: str) -> tuple[str, int | None]:
    """Take a `model_id` apart into the model's name and the chosen dimensions."""
    chosen = re.fullmatch(r"(.+)@([1-9][0-9]*)", model_id)
    return (chosen[1], int(chosen[2])) if chosen else (model_id, None)
