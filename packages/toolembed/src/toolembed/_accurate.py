"""The accurate model: a small transformer, trained on tools and requests, with static vectors."""

from __future__ import annotations

import asyncio
import hashlib
import mmap
import threading
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from toolembed._static import DIMENSIONS as STATIC_DIMENSIONS
from toolembed._static import StaticEmbedder
from toolembed.errors import EmbeddingError, FailureKind
from toolembed.protocols import EmbeddingLimits
from toolembed.providers import ACCURATE, ACCURATE_WEIGHTS, Remedies

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from toolembed._transformer import Transformer

_VERSION = f"{ACCURATE}:1"
_WIDTH = 384
# The transformer's weight in the cosine of both; chosen on development sets (decision 23).
_SHARE = 0.7
# These take a fifth of a second on one core, which a kill wastes, and which a search may have to
# wait for.
_LIMITS = EmbeddingLimits(texts_per_request=16)
_REMEDIES = Remedies()


class AccurateEmbedder:
    """Embeds with a transformer of six layers, joined with the static vectors.

    A vector has 640 dimensions: 384 of the transformer and 256 of `StaticEmbedder`. They are
    weighted so that a cosine is .7 times the transformer's plus .3 times the static one. It needs
    no network and no GPU, and takes about 20 ms for a request, or embeds 50 tools a second, on one
    core. The weights are in the package toolembed-accurate (the extra `accurate`). Implements
    `toolembed.Embedder`.

    Args:
        weights: Your own weights, as made by benchmarks/quality/train; None for ours.
        remedies: The advice in its errors.

    Attributes:
        static: The embedder of the static part. It is a hundred times as fast, so its vectors can
            be used until these are ready.

    Raises:
        EmbeddingError: (on first use) The weights are not installed, or are not the expected ones.
        OSError: `weights` cannot be read.
    """

    def __init__(self, *, weights: Path | None = None, remedies: Remedies = _REMEDIES) -> None:
        self._given = None if weights is None else weights.read_bytes()
        # Asked several times in each search, and hashing takes as long as a search.
        self._model_id = (
            _VERSION
            if self._given is None
            else f"{ACCURATE}:{hashlib.sha256(self._given).hexdigest()[:12]}"
        )
        self._remedies = remedies
        self._lock = threading.Lock()
        self.static: StaticEmbedder = StaticEmbedder()

    @property
    def model_id(self) -> str:
        """The name under which the vectors are stored."""
        return self._model_id

    @property
    def dimensions(self) -> int:
        """The length of the vectors."""
        return _WIDTH + STATIC_DIMENSIONS

    @property
    def limits(self) -> EmbeddingLimits:
        """How many texts to embed at once, one batch after the other."""
        return _LIMITS

    async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed documents, in a worker thread."""
        return await asyncio.to_thread(self.encode_documents, list(texts))

    async def embed_query(self, text: str) -> list[float]:
        """Embed a query, in a worker thread."""
        return (await asyncio.to_thread(self.encode_queries, [text]))[0]

    def encode_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed documents: one list of 640 floats for each."""
        return self._joined(texts, self.static.encode_documents(texts))

    def encode_queries(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed queries: one list of 640 floats for each."""
        return self._joined(texts, self.static.encode_queries(texts))

    def _joined(self, texts: Sequence[str], static: list[list[float]]) -> list[list[float]]:
        if not texts:
            return []
        with self._lock:
            transformer = self._transformer
        import numpy as np

        parts = transformer.encode(texts) * _SHARE**0.5, np.array(static) * (1 - _SHARE) ** 0.5
        joined: np.ndarray[tuple[int, int], np.dtype[np.float64]] = np.concatenate(parts, axis=1)
        vectors: list[list[float]] = joined.tolist()
        return vectors

    @cached_property
    def _transformer(self) -> Transformer:
        try:
            # It imports numpy, and programs that only name the model need not wait for that.
            from toolembed._transformer import Transformer

            weights = _installed() if self._given is None else self._given
            transformer = Transformer(weights)
        except ModuleNotFoundError as error:
            if error.name != ACCURATE_WEIGHTS:
                raise self._failure(f"{error}; reinstall it") from error
            what = f"its weights are not installed; {self._remedies.to_install(ACCURATE)}"
            raise self._failure(what) from error
        except (ImportError, OSError, ValueError) as error:
            raise self._failure(f"it cannot be loaded ({error}); reinstall it") from error
        if transformer.width != _WIDTH:
            raise self._failure(f"its vectors have {transformer.width} dimensions, not {_WIDTH}")
        return transformer

    def _failure(self, reason: str) -> EmbeddingError:
        return EmbeddingError(self.model_id, reason, kind=FailureKind.UNAVAILABLE)


def _installed() -> mmap.mmap:
    from toolembed_accurate import WEIGHTS

    # Half of the file is word pieces, of which a request needs ten.
    with Path(WEIGHTS).open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
