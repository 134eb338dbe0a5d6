"""Vectors of queries by the offline model, which is faster than handing work to a thread."""

from __future__ import annotations

from array import array
from functools import lru_cache
from typing import TYPE_CHECKING

from toolembed import EmbeddingError
from toolrank import split_request

from pytools_hybrid.observing import MODEL_REQUESTS, Observed
from pytools_hybrid.search._types import QueryVector

if TYPE_CHECKING:
    from toolembed import StaticEmbedder

    from pytools_hybrid.search._channels import Encode

_REMEMBERED = 1024


class QueryEncoder:
    """Makes the vectors of a query and its parts where the index is searched, and keeps them."""

    def __init__(self, embedder: StaticEmbedder) -> None:
        self.knows = embedder.knows
        self._embedder = embedder
        self.vector = lru_cache(maxsize=_REMEMBERED)(self._vector)

    @property
    def documents(self) -> Encode | None:
        """Embeds tools at once; None if something would have to be loaded first."""
        return self._embedder.encode_documents if self._embedder.is_instant else None

    def _vector(self, text: str) -> QueryVector:
        """Return the vectors."""
        model_id, parts = self._embedder.model_id, split_request(text)
        with Observed(MODEL_REQUESTS, "query", model_id) as seen:
            values, *of_parts = [
                array("f", values) for values in self._embedder.encode_queries([text, *parts])
            ]
            if not any(values):
                reason = "gave the query a vector of zeros"
                raise EmbeddingError(model_id, reason)
            seen.outcome = "answered"
        return QueryVector(
            model_id=model_id,
            values=values,
            text=text,
            parts=tuple(
                (part, its if any(its) else None) for part, its in zip(parts, of_parts, strict=True)
            ),
        )
