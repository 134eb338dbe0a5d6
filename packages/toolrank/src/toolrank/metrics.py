"""Measure rankings against relevance judgements.

How good a ranking is, how certain that is, and whether another one is better::

    evaluation = evaluate(run, qrels, ["recall@5", "ndcg@10", "mrr"])
    evaluation.mean("ndcg@10")
    evaluation.confidence_interval("ndcg@10")
    evaluation.difference(baseline, "ndcg@10")

The measures are `recall@k`, `precision@k`, `hit@k`, `completeness@k`, `ndcg@k`, `mrr@k` and
`mrr`. An id that is listed twice counts once, at its first rank.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

from toolrank.errors import RankingArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["Evaluation", "Interval", "evaluate"]

_Relevant: TypeAlias = Collection[str] | Mapping[str, float]
"""The relevant ids of a query, each worth 1, or the gain of each; no gain above 0: irrelevant."""


# Each takes distinct ids, best first, the gain of each relevant one, and a number of places; None
# for all of them.


def _recall(ranked: Sequence[str], gains: Mapping[str, float], k: int | None) -> float:
    return len(_found(ranked, gains, k)) / len(gains)


def _precision(ranked: Sequence[str], gains: Mapping[str, float], k: int | None) -> float:
    # A list shorter than k is divided by k all the same, as in trec_eval.
    return len(_found(ranked, gains, k)) / (k or len(ranked))


def _hit(ranked: Sequence[str], gains: Mapping[str, float], k: int | None) -> float:
    # trec_eval's `success`.
    return float(bool(_found(ranked, gains, k)))


def _completeness(ranked: Sequence[str], gains: Mapping[str, float], k: int | None) -> float:
    # COMP@k of Qu et al. 2024: a request that needs three tools needs all three.
    return float(len(_found(ranked, gains, k)) == len(gains))


def _reciprocal_rank(ranked: Sequence[str], gains: Mapping[str, float], k: int | None) -> float:
    # Its mean over queries is the MRR (Voorhees 1999).
    found = _found(ranked, gains, k)
    return 1 / min(found) if found else 0.0


def _ndcg(ranked: Sequence[str], gains: Mapping[str, float], k: int | None) -> float:
    # Järvelin & Kekäläinen (2002), in the form of trec_eval's `ndcg_cut`: gains as they are given,
    # divided by log2(rank + 1); the best attainable is that of all relevant ids by gain.
    ideal = sorted(gains.values(), reverse=True)[:k]
    # Scale the largest gain to 1.0, so that no sum overflows; only proportions count.
    largest = ideal[0]
    found = _found(ranked, gains, k)
    gained = _discounted((rank, gains[id_] / largest) for rank, id_ in found.items())
    attainable = _discounted((rank, gain / largest) for rank, gain in enumerate(ideal, start=1))
    # Rounding can pass the quotient over 1 by one part in 10^16.
    return min(1.0, gained / attainable)


def _found(ranked: Sequence[str], gains: Mapping[str, float], k: int | None) -> dict[int, str]:
    """Return the relevant ids among the first k by their rank."""
    return {rank: id_ for rank, id_ in enumerate(ranked[:k], start=1) if id_ in gains}


def _discounted(gains: Iterable[tuple[int, float]]) -> float:
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in gains)


def _check_ids(ids: Collection[object], *, argument: str, of: str) -> None:
    """Refuse values that are not ids, which would match none."""
    if isinstance(ids, str):
        raise RankingArgumentError(argument, f"{of}: {ids!r} is one string; put it into a list")
    for id_ in ids:
        # Callers require strings, but a mistake would look like a ranking without hits.
        if not isinstance(id_, str):
            raise RankingArgumentError(argument, f"{of}: {id_!r} is not an id; give strings")


def _positive_gains(relevant: _Relevant, *, of: str) -> dict[str, float]:
    """Return the gain of each relevant id, 1 if none is given; refuse unusable judgements."""
    _check_ids(relevant, argument="qrels", of=of)
    given = (
        cast("Mapping[str, float]", relevant)
        if isinstance(relevant, Mapping)
        else dict.fromkeys(relevant, 1.0)
    )
    for id_, gain in given.items():
        if not math.isfinite(gain):
            raise RankingArgumentError(
                "qrels", f"{of}: the gain of {id_!r} is {gain}; give a finite number"
            )
    gains = {id_: gain for id_, gain in given.items() if gain > 0}
    if not gains:
        raise RankingArgumentError(
            "qrels", f"{of} has no relevant ids, so nothing can be measured; leave it out"
        )
    return gains


_MRR = "mrr"
_FORMULAS: Mapping[str, Callable[[Sequence[str], Mapping[str, float], int | None], float]] = {
    "recall": _recall,
    "precision": _precision,
    "hit": _hit,
    "ndcg": _ndcg,
    "completeness": _completeness,
    _MRR: _reciprocal_rank,
}
_EXISTING = ", ".join([*(f"{name}@k" for name in _FORMULAS), _MRR])
_WRITTEN = re.compile(r"(?P<name>[a-z]+)(?:@(?P<k>[1-9][0-9]{0,8}))?")


def _parse(measure: str) -> tuple[str, str, int | None]:
    """Return a measure, its formula's name, and its number of places; None, for mrr, means all."""
    written = _WRITTEN.fullmatch(measure)
    if written is None or written["name"] not in _FORMULAS:
        raise RankingArgumentError(
            "measure", f"no measure is called {measure!r}; there are {_EXISTING}, with k from 1"
        )
    name, k = written["name"], written["k"]
    if k is None and name != _MRR:
        raise RankingArgumentError("measure", f"{name!r} needs a k: {name}@10")
    return measure, name, None if k is None else int(k)


class Interval(NamedTuple):
    """A mean over queries, with the range in which it lies at a level of confidence.

    Attributes:
        mean: The mean.
        low: The lower end of the interval.
        high: Its upper end.
    """

    mean: float
    low: float
    high: float


def _interval(values: Sequence[float], *, level: float, resamples: int, seed: int) -> Interval:
    """Return the percentile bootstrap interval of a mean (Efron & Tibshirani 1993, chapter 13)."""
    if not 0 < level < 1:
        raise RankingArgumentError("level", f"{level} is not between 0 and 1; 0.95 is usual")
    if resamples < 1:
        raise RankingArgumentError("resamples", f"{resamples} is below 1; 1000 is usual")
    draw = random.Random(seed).choices  # noqa: S311 - statistics, no secret.
    count = len(values)
    means = sorted(math.fsum(draw(values, k=count)) / count for _ in range(resamples))
    tail = (1 - level) / 2
    return Interval(_mean(values), _quantile(means, tail), _quantile(means, 1 - tail))


def _mean(values: Collection[float]) -> float:
    return math.fsum(values) / len(values)


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which a share of the values lie, interpolated between neighbours."""
    place = share * (len(ordered) - 1)
    below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
    return below + (above - below) * (place - math.floor(place))


class Evaluation(NamedTuple):
    """The values of some measures for each query, as `evaluate` returns them.

    Attributes:
        values: Per measure, by its name, the value of each query.
    """

    values: Mapping[str, Mapping[str, float]]

    def mean(self, measure: str) -> float:
        """Return a measure's mean over all queries.

        Raises:
            RankingArgumentError: The measure was not evaluated.
        """
        return _mean(self._values_of(measure).values())

    def confidence_interval(
        self, measure: str, level: float = 0.95, resamples: int = 1000, seed: int = 0
    ) -> Interval:
        """Return a measure's mean with its bootstrap interval; equal arguments give an equal one.

        Args:
            measure: One of those evaluated.
            level: The confidence, between 0 and 1.
            resamples: How many samples of the queries are drawn.
            seed: Of the draws.

        Raises:
            RankingArgumentError: A measure that was not evaluated, a level or a number of
                resamples outside its range.
        """
        values = self._values_of(measure)
        # Sorted by query id, so that the order of the queries does not matter.
        ordered = [values[query] for query in sorted(values)]
        return _interval(ordered, level=level, resamples=resamples, seed=seed)

    def difference(
        self,
        other: Evaluation,
        measure: str,
        level: float = 0.95,
        resamples: int = 1000,
        seed: int = 0,
    ) -> Interval:
        """Compare with another evaluation of the same queries (paired bootstrap, Sakai 2006).

        Args:
            other: What to compare with, as a baseline.
            measure: One that both have.
            level: The confidence, between 0 and 1.
            resamples: How many samples of the queries are drawn.
            seed: Of the draws.

        Returns:
            This evaluation less the other; above 0 this one is better. If the interval contains 0,
            the difference may depend on which queries happened to be asked.

        Raises:
            RankingArgumentError: As for `confidence_interval`, or the queries differ.
        """
        ours, theirs = self._values_of(measure), other._values_of(measure)
        if unshared := ours.keys() ^ theirs.keys():
            raise RankingArgumentError(
                "other",
                f"{len(unshared)} queries are in one evaluation only, {min(unshared)!r} for one; "
                "evaluate both with the same qrels",
            )
        differences = [ours[query] - theirs[query] for query in sorted(ours)]
        return _interval(differences, level=level, resamples=resamples, seed=seed)

    def _values_of(self, measure: str) -> Mapping[str, float]:
        name, *_ = _parse(measure)
        if name not in self.values:
            raise RankingArgumentError(
                "measure", f"{name} was not evaluated; there are {', '.join(self.values)}"
            )
        return self.values[name]


def evaluate(
    run: Mapping[str, Sequence[str]],
    qrels: Mapping[str, _Relevant],
    measures: Iterable[str],
) -> Evaluation:
    """Measure the rankings of many queries against what is relevant to each.

    Args:
        run: By query id, the ids found, best first.
        qrels: By query id, the relevant ids or the gain of each. These are the queries that
            count: one that the run lacks scores 0 (trec_eval's `-c`), and one that only the run
            has is left out.
        measures: What to measure: `recall@5`, `ndcg@10`, `mrr`.

    Raises:
        RankingArgumentError: A measure that does not exist, no measure or no query at all, a
            query without relevant ids, or a list that holds something other than ids.
    """
    parsed = [_parse(measure) for measure in measures]
    if not parsed:
        raise RankingArgumentError("measures", "none given; ndcg@10 and recall@5 are usual")
    if not qrels:
        raise RankingArgumentError("qrels", "no queries; give each query's relevant ids")
    judged: dict[str, tuple[list[str], dict[str, float]]] = {}
    for query, relevant in qrels.items():
        ranked, of = run.get(query, ()), f"query {query!r}"
        _check_ids(ranked, argument="run", of=of)
        judged[query] = list(dict.fromkeys(ranked)), _positive_gains(relevant, of=of)
    return Evaluation(
        {
            measure: {query: _FORMULAS[name](*pair, k) for query, pair in judged.items()}
            for measure, name, k in parsed
        }
    )
