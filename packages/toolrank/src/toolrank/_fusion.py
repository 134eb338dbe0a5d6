"""Many rankings into one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from toolrank._records import Contribution, Hit, RankedHit
from toolrank._weights import check_weight
from toolrank.errors import RankingArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Fusion", "linear_fusion", "reciprocal_rank_fusion"]


class Fusion(Protocol):
    """A way to make one ranking of several; the two functions of this module are such."""

    def __call__(
        self, rankings: Mapping[str, Sequence[Hit]], *, weights: Mapping[str, float] | None = None
    ) -> list[RankedHit]:
        """Fuse lists by retriever name, each best first, into one, best first, ties by id."""
        ...


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
        RankingArgumentError: A weight or a k that is negative or not finite.
    """
    if not (math.isfinite(rrf_k) and rrf_k >= 0):
        raise RankingArgumentError("rrf_k", f"{rrf_k} is not a finite number of zero or more")
    active = _active(rankings, weights)
    shares = {
        name: [weight / (rrf_k + rank) for rank in range(1, len(rankings[name]) + 1)]
        for name, weight in active.items()
    }
    attainable = sum(weight / (rrf_k + 1) for weight in active.values())
    return _ranked(rankings, shares, attainable)


def linear_fusion(
    rankings: Mapping[str, Sequence[Hit]], *, weights: Mapping[str, float] | None = None
) -> list[RankedHit]:
    """Fuse rankings by a convex combination of their scores (Bruch, Gai & Ingber 2023).

    Each list's scores are divided by its best one, those below zero count as zero, and a
    document's score is the weighted mean over the lists: 1.0 means the best of every list.
    Unlike ranks, this keeps how far apart the candidates of a list are.

    Args:
        rankings: As for `reciprocal_rank_fusion`; higher scores must be better.
        weights: As for `reciprocal_rank_fusion`.

    Returns:
        All documents of the lists that are on, best first, ties by id.

    Raises:
        RankingArgumentError: A weight that is negative or not finite.
    """
    active = _active(rankings, weights)
    shares: dict[str, list[float]] = {}
    for name, weight in active.items():
        best = max((hit.score for hit in rankings[name]), default=0.0)
        divisor = best if best > 0 else 1.0
        shares[name] = [weight * max(hit.score, 0.0) / divisor for hit in rankings[name]]
    return _ranked(rankings, shares, sum(active.values()))


def _active(rankings: Iterable[str], weights: Mapping[str, float] | None) -> dict[str, float]:
    """Give the weights of the lists that are on, the largest as 1.0.

    Only their proportions count, and like this no sum of them overflows or comes to nothing.
    """
    given = {name: (weights or {}).get(name, 1.0) for name in rankings}
    for name, weight in given.items():
        check_weight(weight, of=repr(name), argument="weights")
    largest = max(given.values(), default=0.0)
    return {name: weight / largest for name, weight in given.items() if weight > 0}


def _ranked(
    rankings: Mapping[str, Sequence[Hit]], shares: Mapping[str, Sequence[float]], attainable: float
) -> list[RankedHit]:
    scores: dict[str, float] = {}
    contributions: dict[str, list[Contribution]] = {}
    for name, list_shares in shares.items():
        pairs = zip(rankings[name], list_shares, strict=True)
        for rank, (hit, share) in enumerate(pairs, start=1):
            scores[hit.id] = scores.get(hit.id, 0.0) + share
            contributions.setdefault(hit.id, []).append(
                Contribution(retriever=name, rank=rank, score=hit.score)
            )
    return [
        RankedHit(
            id=id_,
            # Rounding in the sums can pass the quotient over 1 by one part in 10^16.
            score=min(1.0, scores[id_] / attainable),
            contributions=tuple(contributions[id_]),
        )
        for id_ in sorted(scores, key=lambda id_: (-scores[id_], id_))
    ]
