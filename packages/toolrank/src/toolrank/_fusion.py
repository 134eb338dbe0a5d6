"""Fusing several rankings into one, and what each contributed to a hit."""

from __future__ import annotations

import math
from itertools import islice
from math import fsum
from typing import TYPE_CHECKING, NamedTuple

from toolrank._arguments import check_weight
from toolrank._records import Contribution, Hit
from toolrank.errors import RankingArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

LIST_DEPTH = 50
"""The most candidates taken from a channel for a subquery: deeper ones had no measurable effect,
and every subquery costs time. Hits are not compared with deeper ones either."""

_RIVALS = 5


class FusedScores(NamedTuple):
    """The fused scores of every candidate, including those that are in no list.

    Attributes:
        scores: In [0, 1] for each candidate in any of the lists.
        floor: The score of all others; none of `scores` is below it.
    """

    scores: Mapping[str, float]
    floor: float = 0.0

    def of(self, id_: str) -> float:
        """Return one candidate's score."""
        return self.scores.get(id_, self.floor)

    def ranking(self) -> list[Hit]:
        """Return the candidates in the lists, best first, ties by id."""
        ordered = sorted(self.scores.items(), key=lambda scored: (-scored[1], scored[0]))
        return [Hit(id=id_, score=score) for id_, score in ordered]


def reciprocal_rank_fusion(
    rankings: Mapping[str, Sequence[Hit]],
    *,
    weights: Mapping[str, float] | None = None,
    floors: Mapping[str, float] | None = None,
    missing: Mapping[str, Collection[str]] | None = None,
    rrf_k: float = 60.0,
) -> FusedScores:
    """Fuse rankings by Reciprocal Rank Fusion (Cormack, Clarke & Büttcher 2009).

    A document's score is the sum over the lists of w / (k + rank), ranks from 1, divided by
    the sum of w / (k + 1): 1.0 means first in every list. A list that lacks a document adds
    nothing to it.

    Args:
        rankings: The lists to fuse by retriever name, each best first. An empty list counts
            in the divisor: that retriever ran and found nothing.
        weights: Each list's weight, 1.0 where none is given; 0 switches a list off.
        floors: Unused: ranks have no scores.
        missing: The candidates of other lists that a list could not judge, by its name. Each gets
            the same share of this list's best as it has in the other lists.
        rrf_k: The constant k; a larger value gives the first ranks less weight.

    Raises:
        RankingArgumentError: A weight or a k that is negative or not finite.
    """
    if not (math.isfinite(rrf_k) and rrf_k >= 0):
        raise RankingArgumentError("rrf_k", f"{rrf_k} is not a finite number of zero or more")
    active = _active(rankings, weights)
    shares = {
        name: {hit.id: weight / (rrf_k + rank) for rank, hit in enumerate(rankings[name], 1)}
        for name, weight in active.items()
    }
    most = {name: weight / (rrf_k + 1) for name, weight in active.items()}
    return _summed(_with_estimates(shares, {}, most, missing or {}), {}, most)


def linear_fusion(
    rankings: Mapping[str, Sequence[Hit]],
    *,
    weights: Mapping[str, float] | None = None,
    floors: Mapping[str, float] | None = None,
    missing: Mapping[str, Collection[str]] | None = None,
    units: Mapping[str, float] | None = None,
) -> FusedScores:
    """Fuse rankings by a convex combination of their scores (Bruch, Gai & Ingber 2023).

    Unlike ranks, scores show how far apart the candidates of a list are. Those below zero
    count as zero. There are two ways to make the scores of different lists comparable:

    - By each list's maximum, where no units are given: a score is divided by the best of its
      list, and the fused score is the weighted mean. A list has its full weight, however weak its
      best candidate is.
    - By strength, where units are given: the fused score is the weighted sum of score × unit,
      divided by the sum that the lists' best scores would give. A list whose best candidate is
      weak has little weight, and an additional candidate never reorders the others.

    Either way 1.0 means the best of every list.

    Args:
        rankings: As for `reciprocal_rank_fusion`; higher scores must be better. By strength,
            an empty list counts in no divisor.
        weights: As for `reciprocal_rank_fusion`.
        floors: What a candidate scores in a list that does not hold it, at most the list's
            last score; zero if not given.
        missing: The candidates of other lists that a list could not judge, by its name. Each
            gets an estimate between the floor and the best of this list, by its share of the
            best of the other lists.
        units: The factor of each list's scores, 1.0 if not given.

    Raises:
        RankingArgumentError: A weight or a unit that is negative or not finite.
    """
    active = _active(rankings, weights, units)
    best = {name: max(0.0, rankings[name][0].score) if rankings[name] else 0.0 for name in active}
    if units is None:
        divisors = {name: best[name] or 1.0 for name in active}
        most = active
    else:
        # Sums are scaled by the largest of them, so that nothing overflows.
        strongest = max((say * best[name] for name, say in active.items()), default=0.0)
        divisors = dict.fromkeys(active, strongest or 1.0)
        most = {name: say * best[name] / divisors[name] for name, say in active.items()}
    shares: dict[str, dict[str, float]] = {}
    lowest: dict[str, float] = {}
    for name, say in active.items():
        divisor, floor = divisors[name], (floors or {}).get(name, 0.0)
        shares[name] = {
            id_: say * score / divisor if score > 0 else 0.0 for id_, score in rankings[name]
        }
        lowest[name] = say * max(floor, 0.0) / divisor
    return _summed(_with_estimates(shares, lowest, most, missing or {}), lowest, most)


def _active(
    rankings: Iterable[str],
    weights: Mapping[str, float] | None,
    units: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Return the weight of each list in use, times its unit if there are units."""
    names = list(rankings)
    given = {name: (weights or {}).get(name, 1.0) for name in names}
    shares = _proportions(given, "weights")
    if units is not None:
        unit_shares = _proportions({name: units.get(name, 1.0) for name in names}, "units")
        shares = {name: share * unit_shares[name] for name, share in shares.items()}
    return {name: shares[name] for name, weight in given.items() if weight > 0}


def _proportions(values: Mapping[str, float], argument: str) -> dict[str, float]:
    """Scale values so that the largest is 1.0 and no sum of them overflows or underflows."""
    for name, value in values.items():
        check_weight(value, of=repr(name), argument=argument)
    largest = max(values.values(), default=0.0) or 1.0
    return {name: value / largest for name, value in values.items()}


def _with_estimates(
    shares: Mapping[str, Mapping[str, float]],
    floors: Mapping[str, float],
    most: Mapping[str, float],
    missing: Mapping[str, Collection[str]],
) -> Mapping[str, Mapping[str, float]]:
    """Add to each list estimates for the candidates that it could not judge.

    A conditional logit model of which candidate is right, fitted to four sets of tools of which
    10 to 90 % had vectors, values a share in words like the same share in meaning, within 5 %:
    hence no constants (docs/decisions/0017).
    """
    estimated: dict[str, Mapping[str, float]] = dict(shares)
    held = {id_ for given in shares.values() for id_ in given} if missing else set[str]()
    for name in missing.keys() & shares.keys():
        floor, best = floors.get(name, 0.0), most[name]
        added: dict[str, float] = {}
        for id_ in (held & set(missing[name])) - shares[name].keys():
            judges = [other for other in sorted(shares) if id_ not in missing.get(other, ())]
            attainable = sum(most[other] for other in judges)
            given = sum(shares[other].get(id_, floors.get(other, 0.0)) for other in judges)
            share = min(1.0, given / attainable) if attainable else 0.0
            added[id_] = floor + (best - floor) * share
        estimated[name] = {**shares[name], **added}
    return estimated


def _summed(
    shares: Mapping[str, Mapping[str, float]],
    floors: Mapping[str, float],
    most: Mapping[str, float],
) -> FusedScores:
    """Sum each candidate's scores in an order that does not depend on the caller.

    Sums of floats depend on their order, and the ranking must not.
    """
    ids: dict[str, float] = {}
    for given in shares.values():
        ids |= given
    attainable = sum(most[name] for name in sorted(most))
    if attainable == 0:
        return FusedScores(dict.fromkeys(ids, 0.0))
    sums, lowest = [0.0] * len(ids), 0.0
    for name in sorted(shares):
        get, floor = shares[name].get, floors.get(name, 0.0)
        sums = [score + get(id_, floor) for id_, score in zip(ids, sums, strict=True)]
        lowest += floor
    # Rounding in the sums can pass the quotient over 1 by one part in 10^16.
    scores = [score / attainable if score < attainable else 1.0 for score in sums]
    return FusedScores(dict(zip(ids, scores, strict=True)), min(1.0, lowest / attainable))


def contributions_of(
    rankings: Mapping[str, Sequence[Hit]],
    unfiltered: Mapping[str, Sequence[Hit]],
    ids: Collection[str],
    group: Callable[[str], str] | None,
) -> dict[str, list[Contribution]]:
    """Return what each list contributed to some hits, by their ids.

    Args:
        rankings: The lists by retriever name.
        unfiltered: Those of the lists that were also retrieved without a filter.
        ids: The hits.
        group: Gives a hit's group by its id.
    """
    found: dict[str, list[Contribution]] = {id_: [] for id_ in ids}
    for name, hits in rankings.items():
        usual = unfiltered.get(name, hits)[:LIST_DEPTH]
        behind = [score for _, score in usual[10:] or usual[1:][-1:]]
        background = fsum(behind) / len(behind) if behind else 0.0
        rivals: dict[str, float] = {}
        for rank, (id_, score) in enumerate(hits, start=1):
            if id_ not in found:
                continue
            own = "" if group is None else group(id_)
            if own not in rivals:
                rivals[own] = (
                    background if group is None else _rivals(usual, group, own, background)
                )
            found[id_].append(
                Contribution(
                    retriever=name,
                    rank=rank,
                    score=score,
                    background=background,
                    rivals=rivals[own],
                )
            )
    return found


def _rivals(hits: Iterable[Hit], group: Callable[[str], str], own: str, background: float) -> float:
    others = list(islice((score for id_, score in hits if group(id_) != own), _RIVALS))
    return fsum(others) / len(others) if others else background
