"""Presenting the figures: as text, as JSON, and day by day as CSV."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from pytools_hybrid.reports.usage_report._figures import DayFigures, ToolFigures, UsageReport
from pytools_hybrid.reports.usage_report._tables import Table, table_as_csv
from pytools_hybrid.text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence


_DAYS = 14
_TOOLS = 15
_QUERY_LENGTH = 70
_DAY_HEADINGS = ("day (UTC)", "searches", "no result", "outcome", "first ok", "p50", "p95")
_TOOL_HEADINGS = ("tool", "outcomes", "success", "found", "p50", "p95")


def as_text(report: UsageReport) -> str:
    """Format the figures for people."""
    total = report.total
    modes = ", ".join(f"{count} {mode}" for mode, count in report.modes.items())
    lines = [
        f"searches               {total.searches}" + (f" ({modes})" if modes else ""),
        f"without results        {_of(total.without_results, total.searches)}",
        f"without a channel      {_of(total.degraded, total.searches)}",
        f"with an outcome         {_of(total.judged, total.searches)}",
        f"a result succeeded     {_of(total.accepted, total.judged)} of these",
        f"the first succeeded    {_of(total.first_accepted, total.judged)} of these",
        f"time of a search       p50 {_ms(total.latency_p50_ms)}, p95 {_ms(total.latency_p95_ms)}",
        f"outcomes               {report.outcomes}",
    ]
    if report.days:
        lines += ["", *_columns(_DAY_HEADINGS, [_day(day) for day in report.days[-_DAYS:]])]
        lines += _more(len(report.days) - _DAYS, "earlier days: --output csv has them all")
    if report.tools:
        lines += ["", *_columns(_TOOL_HEADINGS, [_tool(tool) for tool in report.tools[:_TOOLS]])]
        lines += _more(len(report.tools) - _TOOLS, "more tools: --output json has them all")
    for heading, queries in (
        ("most asked", report.queries),
        ("queries without results", report.queries_without_results),
        ("queries whose tools failed", report.queries_failed),
    ):
        if queries:
            lines += ["", heading]
            lines += [f"{count:>5} × {one_line(query, _QUERY_LENGTH)}" for query, count in queries]
    return "\n".join(lines)


def as_json(report: UsageReport) -> dict[str, Any]:
    """Return the figures as JSON values."""
    return {
        "total": _day_row(report.total),
        "share_without_results": report.total.share_without_results,
        "share_judged": report.total.share_judged,
        "acceptance_rate": report.total.acceptance_rate,
        "modes": report.modes,
        "days": [_day_row(day) for day in report.days],
        "outcomes": report.outcomes,
        "tools": [asdict(tool) | {"success_rate": tool.success_rate} for tool in report.tools],
        "queries": _queries(report.queries),
        "queries_without_results": _queries(report.queries_without_results),
        "queries_failed": _queries(report.queries_failed),
    }


def days_as_csv(report: UsageReport) -> str:
    """Format the figures of each day as CSV."""
    columns = [column.name for column in fields(DayFigures)]
    return table_as_csv(Table(columns, [_day_row(day) for day in report.days]))


def _queries(queries: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    return [{"query": query, "count": count} for query, count in queries]


def _day_row(figures: DayFigures) -> dict[str, Any]:
    return asdict(figures) | {"day": None if figures.day is None else figures.day.isoformat()}


def _day(day: DayFigures) -> tuple[str, ...]:
    return (
        str(day.day),
        str(day.searches),
        str(day.without_results),
        str(day.judged),
        _percent(day.acceptance_rate),
        _ms(day.latency_p50_ms),
        _ms(day.latency_p95_ms),
    )


def _tool(tool: ToolFigures) -> tuple[str, ...]:
    return (
        tool.tool_id,
        str(tool.outcomes),
        _percent(tool.success_rate),
        str(tool.found),
        _ms(tool.latency_p50_ms),
        _ms(tool.latency_p95_ms),
    )


def _columns(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Format a table with the first column left-aligned, the others right-aligned."""
    table = [headings, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in table
    ]


def _more(number: int, what: str) -> list[str]:
    return [f"… and {number} {what}"] if number > 0 else []


def _of(part: int, whole: int) -> str:
    return f"{part} ({_percent(part / whole)})" if whole else str(part)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def _ms(milliseconds: float | None) -> str:
    return "-" if milliseconds is None else f"{milliseconds:.1f} ms"
