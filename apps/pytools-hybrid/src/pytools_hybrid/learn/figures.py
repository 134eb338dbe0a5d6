"""Presenting the figures: as JSON for programs, or as a table and a sentence for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytools_hybrid.jobs.evaluate._best import BEST_BY, best
from pytools_hybrid.jobs.evaluate._figures import DEPTH, MRR, Figures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toolrank.metrics import Interval

    from pytools_hybrid.jobs.evaluate._evaluator import EvaluationReport

_DIGITS = 6
_COMPLETENESS = f"completeness@{DEPTH}"


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
            "interval": _interval(found.difference.interval),
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
    values = {
        **{f"recall@{k}": evaluation.mean(f"recall@{k}") for k in report.recall_at},
        BEST_BY: evaluation.mean(BEST_BY),
        "mrr": evaluation.mean(MRR),
        "hit@3": evaluation.mean("hit@3"),
        _COMPLETENESS: evaluation.mean(_COMPLETENESS),
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
        **{name: _rounded(value) for name, value in values.items()},
        f"{BEST_BY}_interval": _interval(evaluation.confidence_interval(BEST_BY)),
        "latency_ms": {"p50": round(latency.p50, 3), "p95": round(latency.p95, 3)},
        "failures": list(figures.failures),
        "degraded": figures.degraded,
        **({"by": {report.by: breakdown}} if report.by is not None else {}),
    }


def as_text(report: EvaluationReport) -> str:
    """Return the figures as tables, and the conclusion."""
    parts = [tables(report)]
    if found := best(report.figures):
        parts.append(f"* best of the column\n{found}")
    return "\n\n".join(parts)


def tables(report: EvaluationReport) -> str:
    """Return a table of the figures, with the best of each column marked, and one by group."""
    recall = [f"recall@{k}" for k in report.recall_at]
    columns = [
        *(_column(name, name, report.figures) for name in (*recall, BEST_BY)),
        ["95 % interval", *(_range(each) for each in report.figures)],
        _column("mrr", MRR, report.figures),
        *(_column(name, name, report.figures) for name in ("hit@3", _COMPLETENESS)),
        _marked("misses", [len(each.failures) for each in report.figures], best_of=min),
        _marked("p50 ms", [each.latency.p50 for each in report.figures], best_of=min, form=".1f"),
        _marked("p95 ms", [each.latency.p95 for each in report.figures], best_of=min, form=".1f"),
    ]
    names = ["mode", *(each.configuration.name for each in report.figures)]
    parts = [
        title(report),
        _table(names, columns),
    ]
    if report.by is not None:
        parts.append(_breakdown(report, report.by))
    return "\n\n".join(parts)


def title(report: EvaluationReport) -> str:
    """Return a one-line summary of what was measured."""
    queries = "1 query" if report.queries == 1 else f"{report.queries} queries"
    tools = "1 tool" if report.tools == 1 else f"{report.tools} tools"
    return f"{queries}, {tools}, model{'s' * (', ' in report.model)} {report.model}"


def _breakdown(report: EvaluationReport, by: str) -> str:
    groups = report.figures[0].groups
    columns = [
        ["queries", *(str(len(ids)) for ids in groups.values())],
        *(
            [
                each.configuration.name,
                *(f"{each.mean_within(group, BEST_BY):.3f}" for group in groups),
            ]
            for each in report.figures
        ),
    ]
    return f"{BEST_BY} by {by}\n" + _table([by, *groups], columns)


def _column(title: str, measure: str, figures: Sequence[Figures]) -> list[str]:
    values = [each.evaluation.mean(measure) for each in figures]
    return _marked(title, values, best_of=max, form=".3f")


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
    rows = zip(names, *columns, strict=True)
    return "\n".join(
        "  ".join(
            [
                name.ljust(width),
                *(cell.rjust(size) for cell, size in zip(cells, widths, strict=True)),
            ]
        ).rstrip()
        for name, *cells in rows
    )


def _range(figures: Figures) -> str:
    interval = figures.evaluation.confidence_interval(BEST_BY)
    return f"{interval.low:.3f}–{interval.high:.3f}"


def _interval(interval: Interval) -> list[float]:
    return [_rounded(interval.low), _rounded(interval.high)]


def _rounded(value: float) -> float:
    return round(value, _DIGITS)
