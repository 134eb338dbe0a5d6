"""Summarizing the usage record."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCount:
    """How often one query was asked.

    Attributes:
        query: The query as recorded.
        count: How often.
    """

    query: str
    count: int


class ToolOutcomes(NamedTuple):
    """The outcomes of using one tool.

    Attributes:
        successes: How often it succeeded.
        failures: How often it failed.
        timed: How many of the successes have a latency.
        mean_latency_ms: The mean of those latencies; None without any.
    """

    successes: int
    failures: int
    timed: int = 0
    mean_latency_ms: float | None = None

    @property
    def success_rate(self) -> float:
        """The share of successes."""
        return self.successes / (self.successes + self.failures)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUsage:
    """The recorded use of one tool.

    Attributes:
        tool_id: The tool, which may no longer be in the index.
        observations: The number of outcomes.
        successes: The number of successes.
        latency_p50_ms: The median latency of successes; None if no latency was reported.
        latency_p95_ms: The 95th percentile.
        last_used_at: When it was last used, in seconds since 1970, UTC.
    """

    tool_id: str
    observations: int
    successes: int
    latency_p50_ms: float | None
    latency_p95_ms: float | None
    last_used_at: float

    @property
    def success_rate(self) -> float:
        """The share of successes."""
        return self.successes / self.observations


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageStatistics:
    """Statistics of the usage record. Percentiles are nearest-rank, so they are observed values.

    Attributes:
        searches: The number of searches.
        without_results: How many found nothing.
        queries_without_results: Their most frequent queries, most frequent first.
        judged: How many searches have an outcome, which says how good their results were.
        first_accepted: How many of those have a successful outcome of the first result. A tool that
            was tried and failed does not count, because only a success shows that it was the right
            one.
        latency_p50_ms: The median latency of searches; None if there are none.
        latency_p95_ms: The 95th percentile.
        degraded: How many searches lost a channel.
        tools: Every tool with an outcome, the most used first.
    """

    searches: int
    without_results: int
    queries_without_results: tuple[QueryCount, ...]
    judged: int
    first_accepted: int
    latency_p50_ms: float | None
    latency_p95_ms: float | None
    degraded: int
    tools: tuple[ToolUsage, ...]

    @property
    def share_without_results(self) -> float | None:
        """The share of searches that found nothing, or None before the first search."""
        return self.without_results / self.searches if self.searches else None

    @property
    def acceptance_rate(self) -> float | None:
        """The share of judged searches whose first result was accepted, or None."""
        return self.first_accepted / self.judged if self.judged else None


def compute_statistics(connection: apsw.Connection, *, since: float, top: int) -> UsageStatistics:
    """Summarize the record from a time on."""
    searches, without_results, degraded = connection.execute(
        "SELECT count(*), total(results = '[]'), total(degraded <> '[]') "
        "FROM searches WHERE at >= ?",
        (since,),
    ).get
    judged, first_accepted = connection.execute(
        "SELECT count(*), total(EXISTS (SELECT 1 FROM outcomes WHERE search_id = searches.id "
        "AND success AND tool_id = searches.results ->> 0)) FROM searches WHERE at >= ? "
        "AND EXISTS (SELECT 1 FROM outcomes WHERE search_id = searches.id)",
        (since,),
    ).get
    queries = connection.execute(
        "SELECT query, count(*) FROM searches WHERE at >= ? AND results = '[]' "
        "GROUP BY query ORDER BY count(*) DESC, query LIMIT ?",
        (since, max(0, top)),
    )
    latencies = [
        latency
        for (latency,) in connection.execute(
            "SELECT latency_ms FROM searches WHERE at >= ? ORDER BY latency_ms", (since,)
        )
    ]
    return UsageStatistics(
        searches=searches,
        without_results=int(without_results),
        queries_without_results=tuple(
            QueryCount(query=query, count=count) for query, count in queries
        ),
        judged=judged,
        first_accepted=int(first_accepted),
        latency_p50_ms=percentile(latencies, 50),
        latency_p95_ms=percentile(latencies, 95),
        degraded=int(degraded),
        tools=_tools(connection, since),
    )


def compute_usage(connection: apsw.Connection, tool_id: str) -> ToolUsage | None:
    """Summarize the record of one tool, or return None if it has no outcome."""
    observations, successes, last_used_at = connection.execute(
        "SELECT count(*), sum(success), max(at) FROM outcomes WHERE tool_id = ?", (tool_id,)
    ).get
    if not observations:
        return None
    latencies = [
        latency
        for (latency,) in connection.execute(
            "SELECT latency_ms FROM outcomes WHERE tool_id = ? AND success = 1 "
            "AND latency_ms IS NOT NULL ORDER BY latency_ms",
            (tool_id,),
        )
    ]
    return ToolUsage(
        tool_id=tool_id,
        observations=observations,
        successes=successes,
        latency_p50_ms=percentile(latencies, 50),
        latency_p95_ms=percentile(latencies, 95),
        last_used_at=last_used_at,
    )


def percentile(ordered: Sequence[float], percent: int) -> float | None:
    """Return the smallest value that at least `percent` % of the ordered ones do not exceed.

    Returns:
        One of the values (the nearest-rank percentile), or None if there are none.
    """
    # Round up in integers, because 7 % of 100 must be 7, which floating point would miss.
    return ordered[-(-percent * len(ordered) // 100) - 1] if ordered else None


def _tools(connection: apsw.Connection, since: float) -> tuple[ToolUsage, ...]:
    latencies: defaultdict[str, list[float]] = defaultdict(list)
    for tool_id, latency in connection.execute(
        "SELECT tool_id, latency_ms FROM outcomes "
        "WHERE at >= ? AND success AND latency_ms IS NOT NULL ORDER BY latency_ms",
        (since,),
    ):
        latencies[tool_id].append(latency)
    rows = connection.execute(
        "SELECT tool_id, count(*), sum(success), max(at) FROM outcomes WHERE at >= ? "
        "GROUP BY tool_id ORDER BY count(*) DESC, tool_id",
        (since,),
    )
    return tuple(
        ToolUsage(
            tool_id=tool_id,
            observations=observations,
            successes=successes,
            latency_p50_ms=percentile(latencies[tool_id], 50),
            latency_p95_ms=percentile(latencies[tool_id], 95),
            last_used_at=last_used_at,
        )
        for tool_id, observations, successes, last_used_at in rows
    )
