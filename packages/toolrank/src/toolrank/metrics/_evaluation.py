"""The quality of rankings over many queries, and whether one way of ranking beats another."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from toolrank.errors import RankingArgumentError
from toolrank.metrics._bootstrap import Interval, bootstrap_interval
from toolrank.metrics._formulas import Relevant, distinct_ids, positive_gains
from toolrank.metrics._measure import Measure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The difference of two evaluations, query by query.

    Attributes:
        mean: The mean of the differences; above 0 the first is better.
        interval: Its bootstrap interval. If it contains 0, the difference may depend on which
            queries happened to be asked.
    """

    mean: float
    interval: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The values of some measures for each query, as `evaluate` returns them.

    Attributes:
        values: Per measure, by its name, the value of each query.
    """

    values: Mapping[str, Mapping[str, float]]

    def mean(self, measure: str | Measure) -> float:
        """Return a measure's mean over all queries.

        Raises:
            RankingArgumentError: The measure was not evaluated.
        """
        return fmean(self._values_of(measure).values())

    def confidence_interval(
        self, measure: str | Measure, level: float = 0.95, resamples: int = 1000, seed: int = 0
    ) -> Interval:
        """Return the bootstrap interval of a measure's mean; equal arguments give an equal one.

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
        return bootstrap_interval(ordered, level=level, resamples=resamples, seed=seed)

    def difference(
        self,
        other: Evaluation,
        measure: str | Measure,
        level: float = 0.95,
        resamples: int = 1000,
        seed: int = 0,
    ) -> Difference:
        """Compare with another evaluation of the same queries (paired bootstrap, Sakai 2006).

        Args:
            other: What to compare with, as a baseline.
            measure: One that both have.
            level: The confidence, between 0 and 1.
            resamples: How many samples of the queries are drawn.
            seed: Of the draws.

        Returns:
            This evaluation less the other.

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
        return Difference(
            mean=fmean(differences),
            interval=bootstrap_interval(differences, level=level, resamples=resamples, seed=seed),
        )

    def _values_of(self, measure: str | Measure) -> Mapping[str, float]:
        name = str(_measure(measure))
        if name not in self.values:
            raise RankingArgumentError(
                "measure", f"{name} was not evaluated; there are {', '.join(self.values)}"
            )
        return self.values[name]


def evaluate(
    run: Mapping[str, Sequence[str]],
    qrels: Mapping[str, Relevant],
    measures: Iterable[str | Measure],
) -> Evaluation:
    """Measure the rankings of many queries against what is relevant to each.

    Args:
        run: By query id, the ids found, best first.
        qrels: By query id, the relevant ids or the gain of each. These are the queries that
            count: one that the run lacks scores 0 (trec_eval's `-c`), and one that only the run
            has is left out.
        measures: What to measure: `recall@5`, `ndcg@10`, `mrr` and so on (`Measure`).

    Raises:
        RankingArgumentError: A measure that does not exist, no measure or no query at all, a
            query without relevant ids, or a list that holds something other than ids.
    """
    parsed = [_measure(measure) for measure in measures]
    if not parsed:
        raise RankingArgumentError("measures", "none given; ndcg@10 and recall@5 are usual")
    if not qrels:
        raise RankingArgumentError("qrels", "no queries; give each query's relevant ids")
    judged = {
        query: (
            distinct_ids(run.get(query, ()), argument="run", of=f"query {query!r}"),
            positive_gains(relevant, argument="qrels", of=f"query {query!r}"),
        )
        for query, relevant in qrels.items()
    }
    return Evaluation(
        values={
            str(measure): {query: measure(*pair) for query, pair in judged.items()}
            for measure in parsed
        }
    )


def _measure(measure: str | Measure) -> Measure:
    return measure if isinstance(measure, Measure) else Measure.parse(measure)
