"""Figures of the usage record: of all of it, of each day, and of each tool."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from toolindex import percentile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolindex import OutcomeRecord, SearchRecord

_TOP = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class DayFigures:
    """The searches of some time.

    Attributes:
        day: The day, UTC; None for all of them together.
        searches: How many.
        without_results: How many of them found nothing.
        degraded: How many went without a channel, as when the model could not be reached.
        judged: How many have an outcome: somebody used what they found, and told how it went.
        accepted: How many of these have a success of a tool that they found.
        first_accepted: How many of these have a success of the tool that was ranked first.
        latency_p50_ms: The median time of a search; None without any.
        latency_p95_ms: The time that 95 % of them keep within.
    """

    day: date | None
    searches: int
    without_results: int
    degraded: int
    judged: int
    accepted: int
    first_accepted: int
    latency_p50_ms: float | None
    latency_p95_ms: float | None

    @property
    def share_without_results(self) -> float | None:
        """The share of searches that found nothing."""
        return _share(self.without_results, self.searches)

    @property
    def share_judged(self) -> float | None:
        """The share of searches with an outcome."""
        return _share(self.judged, self.searches)

    @property
    def acceptance_rate(self) -> float | None:
        """The share of the judged searches whose first result was accepted."""
        return _share(self.first_accepted, self.judged)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFigures:
    """The outcomes of one tool.

    Attributes:
        tool_id: The tool; it may be gone from the index.
        outcomes: How many.
        successes: How many of them were successes.
        found: How many searches it was a result of.
        latency_p50_ms: The median time of the successes that tell one; None without any.
        latency_p95_ms: The time that 95 % of these keep within.
    """

    tool_id: str
    outcomes: int
    successes: int
    found: int
    latency_p50_ms: float | None
    latency_p95_ms: float | None

    @property
    def success_rate(self) -> float:
        """The share of successes."""
        return self.successes / self.outcomes


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """The usage record in figures. Percentiles are nearest-rank ones: values that occurred.

    Attributes:
        total: All searches.
        days: Those of each day that has any, the first day first.
        modes: How many searches there were of each mode.
        queries: The most frequent queries, and how often each was asked.
        queries_without_results: Those that found nothing.
        queries_failed: Those that found tools, of which some were used and none succeeded.
        outcomes: How many outcomes there are.
        tools: Every tool with an outcome, the most used first.
    """

    total: DayFigures
    days: tuple[DayFigures, ...]
    modes: dict[str, int]
    queries: tuple[tuple[str, int], ...]
    queries_without_results: tuple[tuple[str, int], ...]
    queries_failed: tuple[tuple[str, int], ...]
    outcomes: int
    tools: tuple[ToolFigures, ...]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to report."""
        return not self.total.searches and not self.outcomes


def usage_report(
    searches: Sequence[SearchRecord], outcomes: Sequence[OutcomeRecord]
) -> UsageReport:
    """Make figures of records.

    Args:
        searches: The searches.
        outcomes: The outcomes; those of searches that are not among these count for tools alone.
    """
    successes: defaultdict[str, set[str]] = defaultdict(set)
    judged: set[str] = set()
    for outcome in outcomes:
        if outcome.search_id is not None:
            judged.add(outcome.search_id)
            if outcome.success:
                successes[outcome.search_id].add(outcome.tool_id)
    by_day: defaultdict[date, list[SearchRecord]] = defaultdict(list)
    for search in searches:
        by_day[datetime.fromtimestamp(search.at, UTC).date()].append(search)
    failed = [
        it for it in searches if it.results and it.id in judged and not _accepts(it, successes)
    ]
    return UsageReport(
        total=_figures(None, searches, judged, successes),
        days=tuple(_figures(day, by_day[day], judged, successes) for day in sorted(by_day)),
        modes=dict(sorted(Counter(search.mode for search in searches).items())),
        queries=_most_asked(searches),
        queries_without_results=_most_asked(search for search in searches if not search.results),
        queries_failed=_most_asked(failed),
        outcomes=len(outcomes),
        tools=_tools(searches, outcomes),
    )


def _figures(
    day: date | None,
    searches: Sequence[SearchRecord],
    judged: set[str],
    successes: defaultdict[str, set[str]],
) -> DayFigures:
    latencies = sorted(search.latency_ms for search in searches)
    known = [search for search in searches if search.id in judged]
    return DayFigures(
        day=day,
        searches=len(searches),
        without_results=sum(not search.results for search in searches),
        degraded=sum(bool(search.degraded) for search in searches),
        judged=len(known),
        accepted=sum(_accepts(it, successes) for it in known),
        first_accepted=sum(
            it.results[:1] != () and it.results[0] in successes[it.id] for it in known
        ),
        latency_p50_ms=percentile(latencies, 50),
        latency_p95_ms=percentile(latencies, 95),
    )


def outcome_days(outcomes: Iterable[OutcomeRecord]) -> dict[date, ToolFigures]:
    """Return the figures of the outcomes of one tool for each day that has any.

    Args:
        outcomes: The outcomes, oldest first.
    """
    by_day: defaultdict[date, list[OutcomeRecord]] = defaultdict(list)
    for outcome in outcomes:
        by_day[datetime.fromtimestamp(outcome.at, UTC).date()].append(outcome)
    return {day: figures for day, its in by_day.items() for figures in _tools((), its)}


def _accepts(search: SearchRecord, successes: defaultdict[str, set[str]]) -> bool:
    return not successes[search.id].isdisjoint(search.results)


def _most_asked(searches: Iterable[SearchRecord]) -> tuple[tuple[str, int], ...]:
    counts = Counter(search.query for search in searches)
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_TOP])


def _tools(
    searches: Iterable[SearchRecord], outcomes: Iterable[OutcomeRecord]
) -> tuple[ToolFigures, ...]:
    found = Counter(tool for search in searches for tool in set(search.results))
    of_tool: defaultdict[str, list[OutcomeRecord]] = defaultdict(list)
    for outcome in outcomes:
        of_tool[outcome.tool_id].append(outcome)
    tools: list[ToolFigures] = []
    for tool_id, its in of_tool.items():
        latencies = sorted(it.latency_ms for it in its if it.success and it.latency_ms is not None)
        tools.append(
            ToolFigures(
                tool_id=tool_id,
                outcomes=len(its),
                successes=sum(it.success for it in its),
                found=found[tool_id],
                latency_p50_ms=percentile(latencies, 50),
                latency_p95_ms=percentile(latencies, 95),
            )
        )
    return tuple(sorted(tools, key=lambda tool: (-tool.outcomes, tool.tool_id)))


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
