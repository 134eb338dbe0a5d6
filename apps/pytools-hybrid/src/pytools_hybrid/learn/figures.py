"""How well configurations answer queries: the measures, which to choose, tables and JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolrank.metrics import evaluate

from pytools_hybrid.terminal import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from toolrank import Hit
    from toolrank.metrics import Evaluation, Interval

    from pytools_hybrid.learn.evaluate import Configuration, EvaluationQuery, UnknownGold

DEPTH = 10
"""The number of results that every measure except recall takes into account."""

BEST_BY = f"ndcg@{DEPTH}"
"""The measure by which configurations are compared."""

_MRR = f"mrr@{DEPTH}"
_COMPLETENESS = f"completeness@{DEPTH}"
_DIGITS = 6


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
    evaluation = evaluate(
        {id_: [hit.id for hit in hits] for id_, hits in answers.items()},
        {query.id: query.gold for query in queries},
        [*(f"recall@{k}" for k in recall_at), BEST_BY, _MRR, "hit@3", _COMPLETENESS],
    )
    groups: dict[str, list[str]] = {}
    for query in queries:
        if query.group:
            groups.setdefault(query.group, []).append(query.id)
    return Figures(
        configuration=configuration,
        answers=answers,
        evaluation=evaluation,
        latency=Latency.of(milliseconds),
        failures=tuple(id_ for id_, value in evaluation.values[_MRR].items() if value == 0),
        degraded=degraded,
        groups=dict(sorted(groups.items())),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The configuration to use, compared with its closest rival.

    Attributes:
        chosen: What to use: a change from the current configuration only if it is significantly
            better.
        other: The configuration that it is compared with.
        difference: The mean advantage of `chosen` over `other`, query by query; negative if `other`
            is better, but not significantly.
    """

    chosen: Figures
    other: Figures
    difference: Interval

    @classmethod
    def between(cls, chosen: Figures, other: Figures) -> Best:
        """Compare two configurations, query by query."""
        difference = chosen.evaluation.difference(other.evaluation, BEST_BY)
        return cls(chosen=chosen, other=other, difference=difference)

    @property
    def is_beyond_chance(self) -> bool:
        """Whether the whole interval of the difference is above 0."""
        return self.difference.low > 0

    def __str__(self) -> str:
        name, value = self.chosen.configuration.name, self.chosen.evaluation.mean(BEST_BY)
        other, mean = self.other.configuration.name, self.difference.mean
        low, high = self.difference.low, self.difference.high
        already = "it is what searches use with your settings"
        chosen = self.chosen.configuration.selected_by
        if mean == 0 and not chosen:
            return (
                f"{name} ({BEST_BY} {value:.3f}) is as good as any: {already}. "
                f"{other} has the same."
            )
        undecided = "which includes 0: the difference may be due to chance"
        if mean < 0:
            return (
                f"Keep {name} ({BEST_BY} {value:.3f}): {already}. {other} is {-mean:.3f} above it, "
                f"but the 95 % interval of that difference is {-high:+.3f} to {-low:+.3f}, "
                f"{undecided}."
            )
        settings = " ".join(f"{key}={setting}" for key, setting in chosen.items())
        how = f"select it with {settings}" if chosen else already
        verdict = "more than the choice of queries explains" if self.is_beyond_chance else undecided
        return (
            f"{name} is best here ({BEST_BY} {value:.3f}): {how}. It is {mean:.3f} above {other}; "
            f"the 95 % interval of that difference is {low:+.3f} to {high:+.3f}, {verdict}."
        )


def best(figures: Sequence[Figures]) -> Best | None:
    """Choose a configuration by NDCG@10; return None if there is nothing to compare.

    Another configuration is only preferred to the current one if the whole interval of their
    difference is above 0: an improvement that may be chance is no reason to change settings.
    """
    if len(figures) < 2:
        return None
    first, second, *_ = sorted(
        figures,
        key=lambda each: (-each.evaluation.mean(BEST_BY), bool(each.configuration.selected_by)),
    )
    current = next((each for each in figures if not each.configuration.selected_by), None)
    if current is None or first is current:
        return Best.between(first, second)
    change = Best.between(first, current)
    return change if change.is_beyond_chance else Best.between(current, first)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationReport:
    """The result of an evaluation.

    Attributes:
        model: The embedding models, as named in settings.
        by: The key that groups the queries, or None.
        unknown: The gold ids that are not in the index.
    """

    queries: int
    tools: int
    model: str
    recall_at: tuple[int, ...]
    by: str | None
    figures: tuple[Figures, ...]
    unknown: UnknownGold


def as_json(report: EvaluationReport) -> dict[str, Any]:
    """Return the figures as a JSON value."""
    found = best(report.figures)
    return {
        "queries": report.queries,
        "tools": report.tools,
        "model": report.model,
        "modes": {each.configuration.name: _mode(each, report) for each in report.figures},
        "best": found
        and {
            "mode": found.chosen.configuration.name,
            "measure": BEST_BY,
            "settings": dict(found.chosen.configuration.selected_by),
            "against": found.other.configuration.name,
            "difference": _rounded(found.difference.mean),
            "interval": _interval(found.difference),
            "beyond_chance": found.is_beyond_chance,
        },
        "unknown_gold": {
            "count": report.unknown.count,
            "queries": report.unknown.queries,
            "examples": dict(report.unknown.examples),
        },
    }


def _mode(figures: Figures, report: EvaluationReport) -> dict[str, Any]:
    evaluation, latency = figures.evaluation, figures.latency
    measures = {
        **{f"recall@{k}": f"recall@{k}" for k in report.recall_at},
        BEST_BY: BEST_BY,
        "mrr": _MRR,
        "hit@3": "hit@3",
        _COMPLETENESS: _COMPLETENESS,
    }
    breakdown = {
        group: {
            "queries": len(ids),
            BEST_BY: _rounded(figures.mean_within(group, BEST_BY)),
            "hit@3": _rounded(figures.mean_within(group, "hit@3")),
        }
        for group, ids in figures.groups.items()
    }
    return {
        **{key: _rounded(evaluation.mean(measure)) for key, measure in measures.items()},
        f"{BEST_BY}_interval": _interval(evaluation.confidence_interval(BEST_BY)),
        "latency_ms": {"p50": round(latency.p50, 3), "p95": round(latency.p95, 3)},
        "failures": list(figures.failures),
        "degraded": figures.degraded,
        **({"by": {report.by: breakdown}} if report.by is not None else {}),
    }


def _interval(interval: Interval) -> list[float]:
    return [_rounded(interval.low), _rounded(interval.high)]


def _rounded(value: float) -> float:
    return round(value, _DIGITS)


def as_text(report: EvaluationReport) -> str:
    """Return the figures as tables, and the conclusion."""
    found = best(report.figures)
    conclusion = f"\n\n* best of the column\n{found}" if found else ""
    return tables(report) + conclusion


def tables(report: EvaluationReport) -> str:
    """Return a table of the figures, with the best of each column marked, and one by group."""
    figures = report.figures

    def means(title: str, measure: str) -> list[str]:
        values = [each.evaluation.mean(measure) for each in figures]
        return _marked(title, values, best_of=max, form=".3f")

    intervals = [each.evaluation.confidence_interval(BEST_BY) for each in figures]
    columns = [
        *(means(name, name) for name in (*(f"recall@{k}" for k in report.recall_at), BEST_BY)),
        ["95 % interval", *(f"{each.low:.3f}–{each.high:.3f}" for each in intervals)],
        means("mrr", _MRR),
        *(means(name, name) for name in ("hit@3", _COMPLETENESS)),
        _marked("misses", [len(each.failures) for each in figures], best_of=min),
        _marked("p50 ms", [each.latency.p50 for each in figures], best_of=min, form=".1f"),
        _marked("p95 ms", [each.latency.p95 for each in figures], best_of=min, form=".1f"),
    ]
    names = ["mode", *(each.configuration.name for each in figures)]
    models = f"model{'s' * (', ' in report.model)} {report.model}"
    queries = f"{report.queries} {'query' if report.queries == 1 else 'queries'}"
    parts = [
        f"{queries}, {counted(report.tools, 'tool')}, {models}",
        _table(names, columns),
    ]
    if report.by is not None:
        groups = figures[0].groups
        columns = [
            ["queries", *(str(len(ids)) for ids in groups.values())],
            *(
                [
                    each.configuration.name,
                    *(f"{each.mean_within(group, BEST_BY):.3f}" for group in groups),
                ]
                for each in figures
            ),
        ]
        parts.append(f"{BEST_BY} by {report.by}\n" + _table([report.by, *groups], columns))
    return "\n\n".join(parts)


def _marked(
    title: str,
    values: Sequence[float],
    *,
    best_of: Callable[[Sequence[float]], float],
    form: str = "d",
) -> list[str]:
    # Compare the rounded values: of two that look equal, neither should be marked as better.
    shown = [format(value, form) for value in values]
    winner = format(best_of(values), form)
    mark = "*" if len(values) > 1 else " "
    return [f"{title} ", *(text + (mark if text == winner else " ") for text in shown)]


def _table(names: Sequence[str], columns: Sequence[Sequence[str]]) -> str:
    width = max(map(len, names))
    widths = [max(map(len, column)) for column in columns]
    lines: list[str] = []
    for name, *cells in zip(names, *columns, strict=True):
        aligned = [cell.rjust(size) for cell, size in zip(cells, widths, strict=True)]
        lines.append("  ".join([name.ljust(width), *aligned]).rstrip())
    return "\n".join(lines)
