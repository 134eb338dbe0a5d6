"""The outcomes of a tool by day, and the requests that found it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytools_hybrid.reports.usage_report import outcome_days, usage_report
from pytools_hybrid.serve.http.console._plots import (
    Plot,
    bars,
    last_days,
    latency_plot,
    midnight,
    rounded_up,
)
from pytools_hybrid.serve.http.console._values import query_links

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from toolindex import OutcomeRecord, SearchRecord
    from toolindex.protocols import UsageStore

    from pytools_hybrid.reports.usage_report import ToolFigures
    from pytools_hybrid.search import ToolSearch

_DAYS = 30


async def tool_history(search: ToolSearch, tool_id: str) -> Mapping[str, Any]:
    """Return the values of a tool's page from the usage record of the last days.

    Raises:
        DatabaseError: The index cannot be read.
    """
    days = last_days(_DAYS)
    since = midnight(days[0])

    def read(usage: UsageStore) -> tuple[Sequence[SearchRecord], Sequence[OutcomeRecord]]:
        return (
            usage.searches(since=since, found=tool_id),
            usage.outcomes(since=since, tool_id=tool_id),
        )

    searches, outcomes = await search.index.recorded(read)
    by_day = outcome_days(outcomes)
    return {
        "period": _DAYS,
        "queries": query_links(usage_report(searches, ()).queries),
        "searches": len(searches),
        "days": by_day,
        "plots": _plots(days, by_day) if not by_day.keys().isdisjoint(days) else (),
    }


def _plots(days: Sequence[date], by_day: Mapping[date, ToolFigures]) -> list[Plot]:
    figures = [by_day.get(day) for day in days]
    top = rounded_up(max(it.outcomes for it in figures if it is not None))
    plots = [
        Plot(
            title="Calls a day",
            keys={"whole": "succeeded", "hollow": "failed"},
            top=f"{top:,.0f}",
            first=days[0],
            last=days[-1],
            bars=bars([_counts(it) for it in figures], top=top),
        )
    ]
    if slowest := max((it.latency_p95_ms or 0.0 for it in figures if it is not None), default=0.0):
        plots.append(
            latency_plot(
                "Latency of successes",
                figures,
                top=rounded_up(slowest),
                first=days[0],
                last=days[-1],
            )
        )
    return plots


def _counts(it: ToolFigures | None) -> list[tuple[str, float, str]]:
    if it is None:
        return []
    title = f"{it.successes} of {it.outcomes} succeeded"
    return [("whole", it.successes, title), ("hollow", it.outcomes - it.successes, title)]
