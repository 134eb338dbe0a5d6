"""The quality and the speed of one configuration's answers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toolrank.metrics import evaluate

from pytools_hybrid.errors import SettingsError
from pytools_hybrid.settings import MAX_LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from toolrank import Hit
    from toolrank.metrics import Evaluation

    from pytools_hybrid.jobs.evaluate._configurations import Configuration
    from pytools_hybrid.jobs.evaluate._queries import EvaluationQuery

DEPTH = 10
"""The number of results that every measure except recall takes into account."""

MRR = f"mrr@{DEPTH}"
MEASURES = (f"ndcg@{DEPTH}", MRR, "hit@3", f"completeness@{DEPTH}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """The duration of searches in milliseconds, including embedding the query."""

    p50: float
    p95: float

    @classmethod
    def of(cls, milliseconds: Iterable[float]) -> Latency:
        """Summarize at least one search, with nearest-rank percentiles."""
        ordered = sorted(milliseconds)
        p50, p95 = (ordered[math.ceil(share * len(ordered)) - 1] for share in (0.50, 0.95))
        return cls(p50=p50, p95=p95)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The results of all queries in one configuration.

    Attributes:
        answers: The tools found, best first, by query id.
        evaluation: The measures of each query.
        failures: The ids of queries without a right tool among the first ten results.
        degraded: The number of searches in which a channel failed.
        groups: The ids of queries by group; empty without a breakdown.
    """

    configuration: Configuration
    answers: Mapping[str, Sequence[Hit]]
    evaluation: Evaluation
    latency: Latency
    failures: tuple[str, ...]
    degraded: int = 0
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict[str, tuple[str, ...]])

    def mean_within(self, group: str, measure: str) -> float:
        """Return the mean of a measure over one group's queries."""
        values = self.evaluation.values[measure]
        ids = self.groups[group]
        return math.fsum(values[id_] for id_ in ids) / len(ids)


def measure(
    configuration: Configuration,
    queries: Sequence[EvaluationQuery],
    answers: Mapping[str, Sequence[Hit]],
    *,
    recall_at: Sequence[int],
    milliseconds: Iterable[float],
    degraded: int,
) -> Figures:
    """Measure the answers."""
    run = {id_: [hit.id for hit in hits] for id_, hits in answers.items()}
    qrels = {query.id: query.gold for query in queries}
    evaluation = evaluate(run, qrels, [*(f"recall@{k}" for k in recall_at), *MEASURES])
    groups: dict[str, list[str]] = {}
    for query in queries:
        if query.group:
            groups.setdefault(query.group, []).append(query.id)
    return Figures(
        configuration=configuration,
        answers=answers,
        evaluation=evaluation,
        latency=Latency.of(milliseconds),
        failures=tuple(id_ for id_, value in evaluation.values[MRR].items() if value == 0),
        degraded=degraded,
        groups=dict(sorted(groups.items())),
    )


def recall_depths(text: str) -> tuple[int, ...]:
    """Parse the depths of recall, such as `1,3,5,10`."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 4 for part in parts):
        raise SettingsError("--limit-k", f"{text!r} is not a list of numbers such as 1,3,5,10")
    depths = sorted({int(part) for part in parts})
    if depths[0] < 1 or depths[-1] > MAX_LIMIT:
        raise SettingsError("--limit-k", f"{text!r} is not in the range of 1 to {MAX_LIMIT}")
    return tuple(depths)
