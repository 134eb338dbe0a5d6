"""The accurate model: a small transformer, trained on tools and requests, with static vectors."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from toolembed._errors import EmbeddingError, FailureKind
from toolembed._protocols import EmbeddingLimits
from toolembed._static import DIMENSIONS, LocalEmbedder, StaticEmbedder, map_file
from toolembed.providers import ACCURATE_WEIGHTS, InstallHints

if TYPE_CHECKING:
    import mmap
    from collections.abc import Sequence

    import numpy as np

    from toolembed._transformer import Transformer

_WIDTH = 384
# The transformer's weight in the cosine of both; chosen on development sets (decision 23).
_SHARE = 0.7
# These take a fifth of a second on one core, which a kill wastes, and which a search may have to
# wait for.
_LIMITS = EmbeddingLimits(texts_per_request=16)


class AccurateEmbedder(LocalEmbedder):
    """Embeds with a transformer of six layers, joined with the static vectors.

    A vector has 640 dimensions: 384 of the transformer and 256 of `StaticEmbedder`. They are
    weighted so that a cosine is .7 times the transformer's plus .3 times the static one. It needs
    no network and no GPU, and takes about 20 ms for a request, or embeds 50 tools a second, on one
    core. The weights are in the package toolembed-accurate (the extra `accurate`).

    Attributes:
        static: The embedder of the static part. It is a hundred times as fast, so its vectors can
            be used until these are ready.
    """

    def __init__(self, *, weights: Path | None = None, hints: InstallHints | None = None) -> None:
        dimensions = _WIDTH + DIMENSIONS
        super().__init__("accurate:1", weights, dimensions=dimensions, limits=_LIMITS)
        self._hints = hints or InstallHints()
        self.static: StaticEmbedder = StaticEmbedder()

    def encode_documents(self, texts: Sequence[str]) -> list[list[float]]:
        return self._joined(texts, self.static.encode_documents(texts))

    def encode_queries(self, texts: Sequence[str]) -> list[list[float]]:
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

            transformer = Transformer(_installed() if self._given is None else self._given)
        except ModuleNotFoundError as error:
            if error.name != ACCURATE_WEIGHTS:
                raise self._failure(f"{error}; reinstall it") from error
            what = f"its weights are not installed; {self._hints.to_install('accurate')}"
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

    return map_file(Path(WEIGHTS))
