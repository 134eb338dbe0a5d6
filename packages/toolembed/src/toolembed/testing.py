"""A contract kit: run `check_embedder` over your own implementation of `Embedder`."""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolembed._protocols import Embedder

__all__ = ["check_embedder"]

_SAME = 1e-5
_TEXTS = [
    "Create a new issue in a repository.",
    "Merge several PDF files into one.",
    "x",
    "名前 emoji 🛠 combining e\u0301",
    "null \0 byte and a lone \ud800 surrogate",
    "word " * 20_000,
]


async def check_embedder(embedder: Embedder) -> None:
    """Check that an embedder does what the `Embedder` protocol asks.

    Raises:
        AssertionError: It does not; the message says what is wrong.
    """
    assert embedder.model_id, "model_id is empty"
    announced = embedder.dimensions
    assert await embedder.embed_documents([]) == [], "no texts must give no vectors"
    documents = await embedder.embed_documents(_TEXTS)
    assert len(documents) == len(_TEXTS), "there must be one vector for each text"
    query = await embedder.embed_query(_TEXTS[0])
    for text, vector in zip([*_TEXTS, "the query"], [*documents, query], strict=True):
        about = f"the vector of {text[:40]!r}"
        assert len(vector) == len(query), f"{about} differs in length from the query's"
        values = array("f", vector)
        assert all(map(math.isfinite, values)), f"{about} is not finite in single precision"
        assert any(values), f"{about} is all zeros in single precision"
    assert announced in (None, len(query)), (
        f"dimensions was {announced} before the first text, the vectors have {len(query)}"
    )
    assert embedder.dimensions == len(query), (
        f"dimensions is {embedder.dimensions} after texts whose vectors have {len(query)}"
    )
    for vector, again in zip(documents, await embedder.embed_documents(_TEXTS[:2]), strict=False):
        # Sums of floats depend on the shape of a batch.
        assert all(abs(a - b) < _SAME for a, b in zip(vector, again, strict=True)), (
            "the same texts in another batch must have the same vectors"
        )
