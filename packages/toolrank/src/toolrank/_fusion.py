"""Many rankings into one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolrank._records import Contribution, Hit, RankedHit
from toolrank.errors import RankingArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["reciprocal_rank_fusion"]


def reciprocal_rank_fusion(
    rankings: Mapping[str, Sequence[Hit]],
    *,
    weights: Mapping[str, float] | None = None,
    rrf_k: float = 60.0,
) -> list[RankedHit]:
    """Fuse rankings by Reciprocal Rank Fusion (Cormack, Clarke & Büttcher 2009).

    A document's score is the sum over the lists of w / (k + rank), ranks from 1, divided by
    the sum of w / (k + 1): 1.0 means first in every list.

    Args:
        rankings: The lists to fuse by retriever name, each best first. An empty list counts
            in the divisor: that retriever looked and found nothing.
        weights: Each list's weight, 1.0 where none is given; 0 switches a list off.
        rrf_k: The constant k; a larger one weighs the first ranks less.

    Returns:
        All documents of the lists that are on, best first, ties by id.

    Raises:
        RankingArgumentError: A negative weight, or a negative k.
    """
    if rrf_k < 0:
        raise RankingArgumentError("rrf_k", f"{rrf_k} is below zero")
    weights = weights or {}
    scores: dict[str, float] = {}
    contributions: dict[str, list[Contribution]] = {}
    attainable = 0.0
    for name, ranking in rankings.items():
        weight = weights.get(name, 1.0)
        if weight < 0:
            raise RankingArgumentError("weights", f"{name!r} has weight {weight}, below zero")
        if weight == 0:
            continue
        attainable += weight / (rrf_k + 1)
        for rank, hit in enumerate(ranking, start=1):
            scores[hit.id] = scores.get(hit.id, 0.0) + weight / (rrf_k + rank)
            contributions.setdefault(hit.id, []).append(
                Contribution(retriever=name, rank=rank, score=hit.score)
            )
    order = sorted(scores, key=lambda id_: (-scores[id_], id_))
    return [
        RankedHit(
            id=id_,
            # Rounding in the sums can pass the quotient over 1 by one part in 10^16.
            score=min(1.0, scores[id_] / attainable),
            contributions=tuple(contributions[id_]),
        )
        for id_ in order
    ]
