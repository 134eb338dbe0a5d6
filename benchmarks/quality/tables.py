"""Scores as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from measure import Failure
from scoring import MAIN, MEASURES, Score

__all__ = ["kinds_table", "table"]


def table(rows: Mapping[str, Score | Failure]) -> str:
    """Return a table with a row for each method, best first, those without a score last."""
    headings = [
        heading for name in MEASURES for heading in ([name, "±"] if name == MAIN else [name])
    ]
    lines = _head(["method", *headings, "p50 ms", "p95 ms", "ready s"])
    for method, row in _best_first(rows):
        if isinstance(row, Failure):
            lines.append(_row([method, f"failed: {row.reason}", *[""] * (len(headings) + 2)]))
            continue
        cells = [
            cell
            for name in MEASURES
            for cell in ([_fraction(row.means[name])] + ([_fraction(row.margin)] * (name == MAIN)))
        ]
        times = [f"{row.p50:.2f}", f"{row.p95:.2f}", f"{row.ready:.2f}"]
        lines.append(_row([method, *cells, *times]))
    return "\n".join(lines)


def kinds_table(kinds: Mapping[str, int], rows: Mapping[str, Mapping[str, Score] | Failure]) -> str:
    """Return a table of hit@3 and the main measure by kind of query, with a row for each method.

    Args:
        kinds: Kind → number of queries.
        rows: Method → kind → score.
    """
    lines = _head(["method", *(f"{kind} ({count})" for kind, count in kinds.items())])
    for method, row in rows.items():
        if isinstance(row, Failure):
            lines.append(_row([method, f"failed: {row.reason}", *[""] * (len(kinds) - 1)]))
            continue
        cells = [
            f"{_fraction(row[kind].means['hit@3'])} / {_fraction(row[kind].means[MAIN])}"
            for kind in kinds
        ]
        lines.append(_row([method, *cells]))
    return "\n".join(lines)


def _best_first(rows: Mapping[str, Score | Failure]) -> Sequence[tuple[str, Score | Failure]]:
    def key(item: tuple[str, Score | Failure]) -> float:
        return 1.0 if isinstance(item[1], Failure) else -item[1].means[MAIN]

    return sorted(rows.items(), key=key)


def _head(headings: Sequence[str]) -> list[str]:
    return [_row(headings), "|" + "|".join(["---", *["--:"] * (len(headings) - 1)]) + "|"]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _fraction(value: float) -> str:
    return f"{value:.3f}"
