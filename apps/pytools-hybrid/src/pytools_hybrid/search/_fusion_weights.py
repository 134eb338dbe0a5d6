"""How the candidates of a search become one ranking, unless a program brings its own ranker."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Protocol

from toolrank import HybridRanker, linear_fusion, reciprocal_rank_fusion

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Literal

    from toolrank import Channel, Fusion, Ranker

# All of these were chosen by ablation: docs/decisions/0008.
UNITS = {"bm25": 0.015, "vector": 1.0, "fuzzy": 0.015}
"""Factors that make the scores of different channels comparable."""

_PART_SHARE = 0.3
_CATEGORY_WEIGHT = 0.3


class RankerFactory(Protocol):
    """Makes the ranker of one search."""

    def __call__(self, channels: Sequence[Channel], usage: Mapping[str, float], /) -> Ranker:
        """Return the ranker for some channels, given the factors of past use by id."""
        ...


def hybrid_ranker(fusion: Literal["linear", "rrf"], rrf_k: float = 60.0) -> RankerFactory:
    """Return the factory of rankers that the settings describe.

    Args:
        fusion: How to fuse the rankings of channels: by score or by rank.
        rrf_k: The constant k of fusion by rank.
    """
    return partial(
        _ranker,
        fuse=partial(linear_fusion, units=UNITS)
        if fusion == "linear"
        else partial(reciprocal_rank_fusion, rrf_k=rrf_k),
    )


def _ranker(
    channels: Sequence[Channel], usage: Mapping[str, float], *, fuse: Fusion
) -> HybridRanker:
    return HybridRanker(
        channels,
        fuse=fuse,
        part_share=_PART_SHARE,
        group=_category,
        group_weight=_CATEGORY_WEIGHT,
        name=_name,
        usage=usage,
    )


def _name(id_: str) -> str:
    return id_.rpartition(":")[2]


@lru_cache(maxsize=1 << 16)
def _category(id_: str) -> str:
    return id_.rpartition(":")[0]
