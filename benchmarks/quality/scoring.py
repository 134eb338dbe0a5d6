"""Score a run: the means of each measure over queries, and over collections."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from measure import Run
from sets import Collection
from toolrank.metrics import evaluate

__all__ = ["MAIN", "MEASURES", "Score", "mean_over", "score"]

MEASURES = {
    "R@1": "hit@1",
    "R@5": "recall@5",
    "R@10": "recall@10",
    "NDCG@10": "ndcg@10",
    "MRR": "mrr@10",
    "hit@3": "hit@3",
    "complete@10": "completeness@10",
}
"""Heading → toolrank's measure. R@1 is the share of queries with a right tool first, R@k the mean
share of the right tools among the first k, complete@10 the share with all of them in the ten."""

MAIN = "NDCG@10"


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The score of a method's run.

    Attributes:
        means: Heading → mean.
        margin: Half of the 95 % interval of the main measure, from resampled queries.
        p50: Median CPU milliseconds of a query.
        p95: The 95th percentile of the same.
        ready: CPU seconds from the tools to the first answer.
    """

    means: Mapping[str, float]
    margin: float
    p50: float
    p95: float
    ready: float


def score(run: Run, collection: Collection, *, kind: str | None = None) -> Score:
    """Score a run by all queries, or by those of a kind."""
    chosen = [
        (query, found, latency)
        for query, found, latency in zip(collection.queries, run.found, run.latencies, strict=True)
        if kind in (None, query.kind)
    ]
    evaluation = evaluate(
        {query.id: found for query, found, _ in chosen},
        {query.id: query.gold for query, _, _ in chosen},
        list(MEASURES.values()),
    )
    interval = evaluation.confidence_interval(MEASURES[MAIN])
    latencies = sorted(latency for _, _, latency in chosen)
    return Score(
        means={heading: evaluation.mean(name) for heading, name in MEASURES.items()},
        margin=(interval.high - interval.low) / 2,
        p50=_percentile(latencies, 0.50),
        p95=_percentile(latencies, 0.95),
        ready=run.ready,
    )


def mean_over(scores: Iterable[Score]) -> Score:
    """Return the mean over collections, with equal weights."""
    every = list(scores)
    return Score(
        means={
            heading: statistics.fmean(one.means[heading] for one in every) for heading in MEASURES
        },
        # The queries of different collections are independent.
        margin=math.hypot(*(one.margin for one in every)) / len(every),
        p50=statistics.fmean(one.p50 for one in every),
        p95=statistics.fmean(one.p95 for one in every),
        ready=statistics.fmean(one.ready for one in every),
    )


def _percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]
