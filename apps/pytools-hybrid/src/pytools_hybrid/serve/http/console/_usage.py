"""What the usage record shows: the usage page, and the history of a tool."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pytools_hybrid.reports.usage import outcome_days, usage_report
from pytools_hybrid.serve.http._parameters import Parameters, read_query
from pytools_hybrid.serve.http.console._drawing import (
    Plot,
    bars,
    last_days,
    latency_plot,
    midnight,
    query_links,
    rounded_up,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from starlette.requests import Request
    from toolindex import OutcomeRecord, SearchRecord, ToolStore

    from pytools_hybrid.reports.usage import DayFigures, ToolFigures, UsageReport
    from pytools_hybrid.search import ToolSearch

_SHOWN_TOOLS = 15
# A record may contain 100,000 searches, which should not be read at every reload.
_REST = 20.0
_PERIODS = ("7", "30", "90")
_TOOL_DAYS = 30


class UsageForm(Parameters):
    """The form of the page."""

    days: Literal["7", "30", "90"] = "7"


class UsagePage:
    """Shows the usage record.

    Args:
        search: The search.
    """

    def __init__(self, search: ToolSearch) -> None:
        self._search = search
        self._lock = asyncio.Lock()
        # The figures and when they expire, by the number of days.
        self._reports: dict[int, tuple[UsageReport, float]] = {}

    async def values(self, request: Request) -> Mapping[str, Any]:
        """Return the values of the page.

        Raises:
            ProblemError: The query of the page is invalid.
            DatabaseError: The index cannot be read.
        """
        asked = read_query(UsageForm, request, is_form=True)
        count = int(asked.days)
        days = last_days(count)
        report = await self._report(days)
        by_day = {figures.day: figures for figures in report.days}
        shown = [tool for tool in report.tools if self._search.policy.passes_id(tool.tool_id)]
        return {
            "days": asked.days,
            "periods": _PERIODS,
            "is_recorded": self._search.settings.usage_log,
            "report": report,
            "plots": _plots(days, by_day) if report.total.searches else (),
            "tables": [
                ("Most asked", query_links(report.queries)),
                ("Asked and not found", query_links(report.queries_without_results)),
                ("Found and failed", query_links(report.queries_failed)),
            ],
            "tools": shown[:_SHOWN_TOOLS],
            "more_tools": len(shown[_SHOWN_TOOLS:]),
        }

    async def _report(self, days: Sequence[date]) -> UsageReport:
        since = midnight(days[0])
        async with self._lock:
            report, until = self._reports.get(len(days), (None, 0.0))
            started = time.monotonic()
            if report is None or started >= until:

                def made(store: ToolStore) -> UsageReport:
                    record = store.usage
                    return usage_report(record.searches(since=since), record.outcomes(since=since))

                report = await self._search.index.read_usage(made)
                ended = time.monotonic()
                self._reports[len(days)] = report, ended + _REST * (ended - started)
            return report


def _plots(days: list[date], by_day: Mapping[date | None, DayFigures]) -> list[Plot]:
    figures = [by_day.get(day) for day in days]
    most = max(it.searches for it in by_day.values())
    top = rounded_up(most)
    slowest = rounded_up(max(it.latency_p95_ms or 0.0 for it in by_day.values()))
    plot = partial(Plot, first=days[0], last=days[-1])
    return [
        plot(
            title="Searches a day",
            keys={"whole": "with an answer", "hollow": "without"},
            top=f"{top:,.0f}",
            bars=bars([_counts(it) for it in figures], top=top),
        ),
        plot(
            title="Share of searches",
            keys={"hollow": "without results"},
            top="100 %",
            bars=bars([_share(it) for it in figures], top=1),
        ),
        latency_plot("Time of a search", figures, top=slowest, first=days[0], last=days[-1]),
    ]


def _counts(it: DayFigures | None) -> list[tuple[str, float, str]]:
    if it is None:
        return []
    title = f"{it.day}: {it.searches} searches, {it.without_results} without results"
    answered = it.searches - it.without_results
    return [("whole", answered, title), ("hollow", it.without_results, title)]


def _share(it: DayFigures | None) -> list[tuple[str, float, str]]:
    share = None if it is None else it.share_without_results
    return [] if it is None or share is None else [("hollow", share, f"{it.day}: {share:.0%}")]


async def tool_history(search: ToolSearch, tool_id: str) -> Mapping[str, Any]:
    """Return the values of a tool's page from the usage record of the last days.

    Raises:
        DatabaseError: The index cannot be read.
    """
    days = last_days(_TOOL_DAYS)
    since = midnight(days[0])

    def read(store: ToolStore) -> tuple[Sequence[SearchRecord], Sequence[OutcomeRecord]]:
        return (
            store.usage.searches(since=since, found=tool_id),
            store.usage.outcomes(since=since, tool_id=tool_id),
        )

    searches, outcomes = await search.index.read_usage(read)
    by_day = outcome_days(outcomes)
    return {
        "period": _TOOL_DAYS,
        "queries": query_links(usage_report(searches, ()).queries),
        "searches": len(searches),
        "days": by_day,
        "plots": _tool_plots(days, by_day) if not by_day.keys().isdisjoint(days) else (),
    }


def _tool_plots(days: Sequence[date], by_day: Mapping[date, ToolFigures]) -> list[Plot]:
    figures = [by_day.get(day) for day in days]
    top = rounded_up(max(it.outcomes for it in figures if it is not None))
    plots = [
        Plot(
            title="Calls a day",
            keys={"whole": "succeeded", "hollow": "failed"},
            top=f"{top:,.0f}",
            first=days[0],
            last=days[-1],
            bars=bars([_outcomes(it) for it in figures], top=top),
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


def _outcomes(it: ToolFigures | None) -> list[tuple[str, float, str]]:
    if it is None:
        return []
    title = f"{it.successes} of {it.outcomes} succeeded"
    return [("whole", it.successes, title), ("hollow", it.outcomes - it.successes, title)]
