"""Measures of one ranking for one query.

Every function takes the ids that were found, best first, and those that are relevant. An id that
is listed twice counts once, at its first rank. The errors are those of `recall`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, TypeAlias, cast

from toolrank.errors import RankingArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Relevant: TypeAlias = Collection[str] | Mapping[str, float]
"""The relevant ids of a query, each worth 1, or the gain of each; no gain above 0: irrelevant."""


def recall(ranked: Sequence[str], relevant: Relevant, k: int) -> float:
    """Return the share of the relevant ids that are among the first k.

    Raises:
        RankingArgumentError: A k below one, no relevant ids, or something that is not an id.
    """
    found, gains = _found(ranked, relevant, k)
    return len(found) / len(gains)


def precision(ranked: Sequence[str], relevant: Relevant, k: int) -> float:
    """Return the share of the first k places that hold a relevant id.

    A list shorter than k is divided by k all the same, as in trec_eval.
    """
    found, _ = _found(ranked, relevant, k)
    return len(found) / k


def hit(ranked: Sequence[str], relevant: Relevant, k: int) -> float:
    """Return 1.0 if any relevant id is among the first k (trec_eval's `success`), or 0.0."""
    found, _ = _found(ranked, relevant, k)
    return float(bool(found))


def completeness(ranked: Sequence[str], relevant: Relevant, k: int) -> float:
    """Return 1.0 if all relevant ids are among the first k (COMP@k of Qu et al. 2024), else 0.0.

    A request that needs three tools needs all three.
    """
    found, gains = _found(ranked, relevant, k)
    return float(len(found) == len(gains))


def reciprocal_rank(ranked: Sequence[str], relevant: Relevant, k: int | None = None) -> float:
    """Return 1 / rank of the first relevant id, or 0.0 if none is found (Voorhees 1999).

    Its mean over queries is the MRR. Without `k`, all places count.
    """
    found, _ = _found(ranked, relevant, k)
    return 1 / min(found) if found else 0.0


def ndcg(ranked: Sequence[str], relevant: Relevant, k: int) -> float:
    """Return the discounted cumulative gain of the first k, divided by the best attainable.

    After Järvelin & Kekäläinen (2002), in the form of trec_eval's `ndcg_cut`: gains as they are
    given, divided by log2(rank + 1); the best attainable is that of all relevant ids by gain.
    """
    found, gains = _found(ranked, relevant, k)
    ideal = sorted(gains.values(), reverse=True)[:k]
    # Scale the largest gain to 1.0, so that no sum overflows; only proportions count.
    largest = ideal[0]
    gained = _discounted((rank, gains[id_] / largest) for rank, id_ in found.items())
    attainable = _discounted((rank, gain / largest) for rank, gain in enumerate(ideal, start=1))
    # Rounding can pass the quotient over 1 by one part in 10^16.
    return min(1.0, gained / attainable)


def check_k(k: int | None) -> None:
    """Refuse an invalid number of places; None means all."""
    if k is not None and k < 1:
        raise RankingArgumentError("k", f"{k} is below 1, the first place")


def check_ids(ids: Collection[object], *, argument: str, of: str) -> None:
    """Refuse values that are not ids, which would match none."""
    if isinstance(ids, str):
        raise RankingArgumentError(argument, f"{of}: {ids!r} is one string; put it into a list")
    for id_ in ids:
        # Callers require strings, but a mistake would look like a ranking without hits.
        if not isinstance(id_, str):
            raise RankingArgumentError(
                argument, f"{of}: {id_!r} is not an id; give strings (of hits: `ranked_ids`)"
            )


def distinct_ids(
    ranked: Sequence[str], *, argument: str = "ranked", of: str = "the ranking"
) -> list[str]:
    """Return each id of a ranking once, at its first rank; refuse values that are not ids."""
    check_ids(ranked, argument=argument, of=of)
    return list(dict.fromkeys(ranked))


def as_gains(relevant: Relevant) -> Mapping[str, float]:
    """Return the gain of each id, 1 if none was given."""
    if isinstance(relevant, Mapping):
        return cast("Mapping[str, float]", relevant)
    return dict.fromkeys(relevant, 1.0)


def positive_gains(
    relevant: Relevant, *, argument: str = "relevant", of: str = "the query"
) -> dict[str, float]:
    """Return the gain of each relevant id; refuse unusable judgements."""
    check_ids(relevant, argument=argument, of=of)
    given = as_gains(relevant)
    for id_, gain in given.items():
        if not math.isfinite(gain):
            raise RankingArgumentError(
                argument, f"{of}: the gain of {id_!r} is {gain}; give a finite number"
            )
    gains = {id_: gain for id_, gain in given.items() if gain > 0}
    if not gains:
        raise RankingArgumentError(
            argument, f"{of} has no relevant ids, so nothing can be measured; leave it out"
        )
    return gains


def _found(
    ranked: Sequence[str], relevant: Relevant, k: int | None
) -> tuple[dict[int, str], dict[str, float]]:
    """Return the relevant ids among the first k by their rank, and the gains of all."""
    check_k(k)
    gains = positive_gains(relevant)
    places = enumerate(distinct_ids(ranked)[:k], start=1)
    return {rank: id_ for rank, id_ in places if id_ in gains}, gains


def _discounted(gains: Iterable[tuple[int, float]]) -> float:
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in gains)
