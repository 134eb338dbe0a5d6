"""The record of searches and outcomes in memory."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from toolindex import (
    OutcomeRecord,
    QueryCount,
    RemovedRecords,
    SearchRecord,
    ToolUsage,
    UsageStatistics,
)

if TYPE_CHECKING:
    from .memory_store import MemoryStore

DAY = 86_400.0


class MemoryUsage:
    """The record of searches and outcomes."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store

    def record_searches(self, searches: Iterable[SearchRecord]) -> None:
        with self.store.changing() as state:
            new = {search.id: search for search in searches}
            self.store.change(searches={**new, **state.searches})

    def record_outcomes(self, outcomes: Iterable[OutcomeRecord]) -> None:
        with self.store.changing() as state:
            self.change(outcomes=(*state.outcomes, *outcomes))

    def statistics(self, *, since: float | None = None, top: int = 10) -> UsageStatistics:
        state = self.store.state
        after = -math.inf if since is None else since
        searches = [search for search in state.searches.values() if search.at >= after]
        outcomes = [outcome for outcome in state.outcomes if outcome.at >= after]
        empty = Counter(search.query for search in searches if not search.results)
        by_search = defaultdict(set)
        for outcome in state.outcomes:
            by_search[outcome.search_id].add((outcome.tool_id, outcome.success))
        judged = [search for search in searches if search.id in by_search]
        latencies = sorted(search.latency_ms for search in searches)
        tools = [
            self.usage_of(tool_id, [o for o in outcomes if o.tool_id == tool_id])
            for tool_id in {outcome.tool_id for outcome in outcomes}
        ]
        return UsageStatistics(
            searches=len(searches),
            without_results=empty.total(),
            queries_without_results=tuple(
                QueryCount(query=query, count=count) for query, count in empty.most_common(top)
            ),
            judged=len(judged),
            first_accepted=sum(
                any((first, True) in by_search[search.id] for first in search.results[:1])
                for search in judged
            ),
            latency_p50_ms=percentile(latencies, 50),
            latency_p95_ms=percentile(latencies, 95),
            degraded=sum(bool(search.degraded) for search in searches),
            tools=tuple(sorted(tools, key=lambda tool: (-tool.observations, tool.tool_id))),
        )

    def of_tool(self, tool_id: str) -> ToolUsage | None:
        outcomes = [o for o in self.store.state.outcomes if o.tool_id == tool_id]
        return self.usage_of(tool_id, outcomes) if outcomes else None

    def searches(
        self, *, since: float | None = None, found: str | None = None
    ) -> tuple[SearchRecord, ...]:
        after = -math.inf if since is None else since
        kept = sorted(self.store.state.searches.values(), key=lambda search: search.at)
        return tuple(
            search
            for search in kept
            if search.at >= after and (found is None or found in search.results)
        )

    def outcomes(
        self, *, since: float | None = None, tool_id: str | None = None
    ) -> tuple[OutcomeRecord, ...]:
        after = -math.inf if since is None else since
        kept = sorted(self.store.state.outcomes, key=lambda outcome: outcome.at)
        return tuple(
            outcome
            for outcome in kept
            if outcome.at >= after and tool_id in {None, outcome.tool_id}
        )

    def usage_of(self, tool_id: str, outcomes: Sequence[OutcomeRecord]) -> ToolUsage:
        latencies = latencies_of(outcomes)
        return ToolUsage(
            tool_id=tool_id,
            observations=len(outcomes),
            successes=sum(outcome.success for outcome in outcomes),
            latency_p50_ms=percentile(latencies, 50),
            latency_p95_ms=percentile(latencies, 95),
            last_used_at=max(outcome.at for outcome in outcomes),
        )

    def retain(self, *, max_age_days: float, max_rows: int) -> RemovedRecords:
        with self.store.changing() as state:
            times = [*(s.at for s in state.searches.values()), *(o.at for o in state.outcomes)]
            cutoff = max(times, default=0.0) - max_age_days * DAY
            return self.keep(
                [search for search in state.searches.values() if search.at >= cutoff][-max_rows:],
                [outcome for outcome in state.outcomes if outcome.at >= cutoff][-max_rows:],
            )

    def clear(self) -> RemovedRecords:
        with self.store.changing():
            return self.keep([], [])

    def keep(
        self, searches: Sequence[SearchRecord], outcomes: Sequence[OutcomeRecord]
    ) -> RemovedRecords:
        state = self.store.state
        self.change(searches={search.id: search for search in searches}, outcomes=tuple(outcomes))
        return RemovedRecords(
            searches=len(state.searches) - len(searches),
            outcomes=len(state.outcomes) - len(outcomes),
        )

    def change(self, **values: Any) -> None:
        self.store.change(usage_generation=self.store.state.usage_generation + 1, **values)


def latencies_of(outcomes: Iterable[OutcomeRecord]) -> list[float]:
    return sorted(o.latency_ms for o in outcomes if o.success and o.latency_ms is not None)


def percentile(ordered: Sequence[float], percent: int) -> float | None:
    return ordered[-(-percent * len(ordered) // 100) - 1] if ordered else None
