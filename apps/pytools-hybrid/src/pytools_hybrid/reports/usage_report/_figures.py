"""Figures of the usage record: in total, by day, and by tool."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from toolindex import percentile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolindex import OutcomeRecord, SearchRecord

Record = TypeVar("Record", "SearchRecord", "OutcomeRecord")

_TOP = 10
_DAY = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class DayFigures:
    """The searches of a day, or of all days.

    Attributes:
        day: The day in UTC; None for the total.
        searches: The number of searches.
        without_results: How many found nothing.
        degraded: How many lacked a channel, for example because the model could not be reached.
        judged: How many have an outcome: a tool that they found was used, and the result reported.
        accepted: How many of the judged ones have a successful outcome.
        first_accepted: How many of the judged ones have a successful outcome of the first result.
        latency_p50_ms: The median latency of searches; None if there are none.
        latency_p95_ms: The 95th percentile.
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
        """The share of judged searches whose first result was used successfully."""
        return _share(self.first_accepted, self.judged)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFigures:
    """The outcomes of one tool.

    Attributes:
        tool_id: The tool, which may no longer be in the index.
        outcomes: The number of outcomes.
        successes: The number of successes.
        found: The number of searches that found it.
        latency_p50_ms: The median latency of successes; None if no latency was reported.
        latency_p95_ms: The 95th percentile.
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
    """The figures of a usage record. Percentiles are nearest-rank, so they are observed values.

    Attributes:
        total: The figures of all searches.
        days: The figures of each day with searches, oldest first.
        modes: The number of searches in each mode.
        queries: The most frequent queries, with their counts.
        queries_without_results: The most frequent queries that found nothing.
        queries_failed: The most frequent queries whose tools were used, but never successfully.
        outcomes: The number of outcomes.
        tools: Every tool with an outcome, most used first.
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
    """Compute the figures of some records.

    Outcomes of searches that are not among the records only count for their tools.
    """
    successes: defaultdict[str, set[str]] = defaultdict(set)
    judged: set[str] = set()
    for outcome in outcomes:
        if outcome.search_id is not None:
            judged.add(outcome.search_id)
            if outcome.success:
                successes[outcome.search_id].add(outcome.tool_id)
    by_day = _by_day(searches)
    failed = [
        it for it in searches if it.id in judged and it.results and not _accepts(it, successes)
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
    """Return the figures of one tool's outcomes for each day with any."""
    by_day = _by_day(outcomes)
    return {day: figures for day, its in by_day.items() for figures in _tools((), its)}


def _by_day(records: Iterable[Record]) -> dict[date, list[Record]]:
    by_day: defaultdict[int, list[Record]] = defaultdict(list)
    for record in records:
        by_day[int(record.at // _DAY)].append(record)
    return {datetime.fromtimestamp(day * _DAY, UTC).date(): its for day, its in by_day.items()}


def _accepts(search: SearchRecord, successes: defaultdict[str, set[str]]) -> bool:
    return not successes[search.id].isdisjoint(search.results)


def _most_asked(searches: Iterable[SearchRecord]) -> tuple[tuple[str, int], ...]:
    counts = Counter(search.query for search in searches)
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_TOP])


def _tools(
    searches: Iterable[SearchRecord], outcomes: Iterable[OutcomeRecord]
) -> tuple[ToolFigures, ...]:
    of_tool: defaultdict[str, list[OutcomeRecord]] = defaultdict(list)
    for outcome in outcomes:
        of_tool[outcome.tool_id].append(outcome)
    found = Counter(chain.from_iterable(of_tool.keys() & it.results for it in searches))
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
