"""The usage record: searches and outcomes, storing and deleting them, and statistics of them."""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from toolindex._errors import ArgumentError, DamagedDatabaseError
from toolindex._files import DURABLE
from toolindex._meta import bump, counter
from toolindex._recovery import without_backup

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence

    import apsw

    from toolindex._connection import ConnectionPool

QUERY_LENGTH = 2_000
"""The maximum length of a recorded query."""
_SEARCH = "id, at, query, mode, parameters, results, latency_ms, degraded"
_OUTCOME = "at, tool_id, success, latency_ms, search_id"
_OUTCOMES = "outcomes"
_DAY = 86_400.0
# Recording a search is not worth a long wait.
_PATIENCE_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRecord:
    """The record of a search.

    Attributes:
        id: Its unique id; a search recorded twice counts once.
        at: When, in seconds since 1970, UTC.
        query: The query, of which the first `QUERY_LENGTH` characters are kept.
        mode: How it was ranked.
        parameters: Other parameters; values that JSON does not have are kept as their `str()`.
        results: The ids of the results, best first.
        latency_ms: How long it took.
        degraded: What was lost, as text; empty if all channels answered.

    Raises:
        ArgumentError: A time is negative or not finite.
    """

    id: str
    at: float
    query: str
    mode: str
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    results: tuple[str, ...]
    latency_ms: float
    degraded: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_number("at", self.at)
        _check_number("latency_ms", self.latency_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeRecord:
    """The outcome of using a tool.

    Attributes:
        at: When, in seconds since 1970, UTC.
        tool_id: The tool, indexed or not.
        success: Whether the tool worked.
        latency_ms: How long the call took, if known.
        search_id: The search that found the tool, if known.

    Raises:
        ArgumentError: A time is negative or not finite.
    """

    at: float
    tool_id: str
    success: bool
    latency_ms: float | None = None
    search_id: str | None = None

    def __post_init__(self) -> None:
        _check_number("at", self.at)
        _check_number("latency_ms", self.latency_ms or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCount:
    """How often one query was asked."""

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

    @staticmethod
    def percentile(ordered: Sequence[float], percent: int) -> float | None:
        """Return the smallest value that at least `percent` % of the ordered ones do not exceed.

        It is one of the values (the nearest-rank percentile), or None if there are none.
        """
        # Round up in integers, because 7 % of 100 must be 7, which floating point would miss.
        return ordered[-(-percent * len(ordered) // 100) - 1] if ordered else None

    @property
    def share_without_results(self) -> float | None:
        """The share of searches that found nothing, or None before the first search."""
        return self.without_results / self.searches if self.searches else None

    @property
    def acceptance_rate(self) -> float | None:
        """The share of judged searches whose first result was accepted, or None."""
        return self.first_accepted / self.judged if self.judged else None


class UsageLog:
    """Stores searches and outcomes in the database; `UsageStore` documents its methods.

    Nothing leaves the machine.
    """

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    @property
    def read_only(self) -> bool:
        return self._pool.read_only

    def record_searches(self, searches: Iterable[SearchRecord]) -> None:
        rows = [
            (
                to_storable(search.id),
                float(search.at),
                to_storable(search.query[:QUERY_LENGTH]),
                to_storable(search.mode),
                json.dumps(dict(search.parameters), default=str),
                json.dumps([to_storable(id_) for id_ in search.results]),
                float(search.latency_ms),
                json.dumps(search.degraded),
            )
            for search in searches
        ]
        if rows:
            with self._pool.write(patience_ms=_PATIENCE_MS) as connection:
                connection.executemany(
                    f"INSERT INTO searches ({_SEARCH}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) "  # noqa: S608
                    "ON CONFLICT (id) DO NOTHING",
                    rows,
                )

    def record_outcomes(self, outcomes: Iterable[OutcomeRecord]) -> None:
        rows = [
            (
                float(outcome.at),
                to_storable(outcome.tool_id),
                int(outcome.success),
                None if outcome.latency_ms is None else float(outcome.latency_ms),
                None if outcome.search_id is None else to_storable(outcome.search_id),
            )
            for outcome in outcomes
        ]
        if rows:
            with self._pool.write() as connection:
                sql = f"INSERT INTO outcomes ({_OUTCOME}) VALUES (?, ?, ?, ?, ?)"  # noqa: S608
                connection.executemany(sql, rows)
                bump(connection, _OUTCOMES)

    def searches(
        self, *, since: float | None = None, found: str | None = None
    ) -> tuple[SearchRecord, ...]:
        # Searched as JSON, with its quotation marks, so that no other id contains it.
        wanted = "" if found is None else json.dumps(to_storable(found))
        with self._reading() as connection:
            rows = connection.execute(
                f"SELECT {_SEARCH} FROM searches WHERE at >= ?1 "  # noqa: S608 - a constant
                "AND (?2 = '' OR instr(results, ?2)) ORDER BY at, rowid",
                (-math.inf if since is None else since, wanted),
            )
            return tuple(
                SearchRecord(
                    id=id_,
                    at=at,
                    query=query,
                    mode=mode,
                    parameters=dict(_loaded(parameters)),
                    results=tuple(_loaded(results)),
                    latency_ms=latency_ms,
                    degraded=tuple(_loaded(degraded)),
                )
                for id_, at, query, mode, parameters, results, latency_ms, degraded in rows
            )

    def outcomes(
        self, *, since: float | None = None, tool_id: str | None = None
    ) -> tuple[OutcomeRecord, ...]:
        wanted = None if tool_id is None else to_storable(tool_id)
        with self._reading() as connection:
            rows = connection.execute(
                f"SELECT {_OUTCOME} FROM outcomes "  # noqa: S608 - a constant
                "WHERE at >= ?1 AND (?2 IS NULL OR tool_id = ?2) ORDER BY at, rowid",
                (-math.inf if since is None else since, wanted),
            )
            return tuple(
                OutcomeRecord(
                    at=at,
                    tool_id=tool,
                    success=bool(success),
                    latency_ms=latency_ms,
                    search_id=search_id,
                )
                for at, tool, success, latency_ms, search_id in rows
            )

    def statistics(self, *, since: float | None = None, top: int = 10) -> UsageStatistics:
        start = (-math.inf if since is None else since,)
        with self._pool.read() as connection:
            searches, without_results, degraded = connection.execute(
                "SELECT count(*), total(results = '[]'), total(degraded <> '[]') "
                "FROM searches WHERE at >= ?",
                start,
            ).get
            judged, first_accepted = connection.execute(
                "SELECT count(*), total(EXISTS (SELECT 1 FROM outcomes WHERE search_id = "
                "searches.id AND success AND tool_id = searches.results ->> 0)) "
                "FROM searches WHERE at >= ? "
                "AND EXISTS (SELECT 1 FROM outcomes WHERE search_id = searches.id)",
                start,
            ).get
            queries = connection.execute(
                "SELECT query, count(*) FROM searches WHERE at >= ? AND results = '[]' "
                "GROUP BY query ORDER BY count(*) DESC, query LIMIT ?",
                (*start, max(0, top)),
            )
            frequent = tuple(QueryCount(query=query, count=count) for query, count in queries)
            ordered = [
                latency
                for (latency,) in connection.execute(
                    "SELECT latency_ms FROM searches WHERE at >= ? ORDER BY latency_ms", start
                )
            ]
            tools = _usage_of(connection, "at >= ?", start)
        return UsageStatistics(
            searches=searches,
            without_results=int(without_results),
            queries_without_results=frequent,
            judged=judged,
            first_accepted=int(first_accepted),
            latency_p50_ms=UsageStatistics.percentile(ordered, 50),
            latency_p95_ms=UsageStatistics.percentile(ordered, 95),
            degraded=int(degraded),
            tools=tools,
        )

    def of_tool(self, tool_id: str) -> ToolUsage | None:
        with self._pool.read() as connection:
            return next(iter(_usage_of(connection, "tool_id = ?", (to_storable(tool_id),))), None)

    def clear(self) -> tuple[int, int]:
        with self._pool.read() as connection:
            sql = "SELECT EXISTS (SELECT 1 FROM searches) OR EXISTS (SELECT 1 FROM outcomes)"
            if not connection.execute(sql).get:
                return 0, 0
        with without_backup(self._pool.path), self._pool.write() as connection:
            # Otherwise the texts would stay in the file until they are overwritten.
            connection.execute("PRAGMA secure_delete = ON")
            return _delete(connection, "")

    def retain(self, *, max_age_days: float, max_rows: int) -> tuple[int, int]:
        _check_number("max_age_days", max_age_days)
        _check_number("max_rows", max_rows)
        with self._pool.write() as connection:
            now = time.time()
            newest = connection.execute(
                "SELECT max(at) FROM (SELECT max(at) AS at FROM searches WHERE at <= ?1 "
                "UNION ALL SELECT max(at) FROM outcomes WHERE at <= ?1)",
                (now,),
            ).get
            cutoff = (now if newest is None else newest) - max_age_days * _DAY
            values = {"now": now, "cutoff": cutoff, "max_rows": max_rows}
            # Rowids are in the order of writing, whatever the clock said. Both conditions use the
            # index on `at`, so that a call without anything to delete reads little.
            return _delete(
                connection,
                "WHERE at < :cutoff OR "
                "(at > :now AND rowid < (SELECT max(rowid) FROM {table} WHERE at < :cutoff))",
                "WHERE rowid IN (SELECT rowid FROM {table} ORDER BY rowid "
                "LIMIT max(0, (SELECT count(*) FROM {table}) - :max_rows))",
                values=values,
            )

    @contextmanager
    def _reading(self) -> Generator[apsw.Connection]:
        """Read records; values that no version wrote are damage."""
        with self._pool.read() as connection:
            try:
                yield connection
            except (ArithmeticError, RecursionError, TypeError, ValueError) as error:
                raise DamagedDatabaseError(DURABLE.path(self._pool.path)) from error


def usage_generation(connection: apsw.Connection) -> int:
    return counter(connection, _OUTCOMES)


def to_storable(text: str) -> str:
    r"""Return a text that SQLite can store: invalid Unicode is written as `\udcNN`."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


@lru_cache(1_024)
def _loaded(text: str) -> Any:  # noqa: ANN401 - any JSON
    # Most searches have the same values, and parsing them takes most of the time of reading a large
    # record.
    return json.loads(text)


def _check_number(argument: str, value: float) -> None:
    if not 0 <= value < math.inf:
        raise ArgumentError(argument, f"is {value}; give a finite number, 0 or more")


def _usage_of(
    connection: apsw.Connection, condition: str, values: tuple[str | float, ...]
) -> tuple[ToolUsage, ...]:
    latencies: defaultdict[str, list[float]] = defaultdict(list)
    for tool_id, latency in connection.execute(
        f"SELECT tool_id, latency_ms FROM outcomes WHERE {condition} "  # noqa: S608 - a constant
        "AND success AND latency_ms IS NOT NULL ORDER BY latency_ms",
        values,
    ):
        latencies[tool_id].append(latency)
    rows = connection.execute(
        f"SELECT tool_id, count(*), sum(success), max(at) FROM outcomes WHERE {condition} "  # noqa: S608
        "GROUP BY tool_id ORDER BY count(*) DESC, tool_id",
        values,
    )
    return tuple(
        ToolUsage(
            tool_id=tool_id,
            observations=observations,
            successes=successes,
            latency_p50_ms=UsageStatistics.percentile(latencies[tool_id], 50),
            latency_p95_ms=UsageStatistics.percentile(latencies[tool_id], 95),
            last_used_at=last_used_at,
        )
        for tool_id, observations, successes, last_used_at in rows
    )


def _delete(
    connection: apsw.Connection, *conditions: str, values: Mapping[str, float] | None = None
) -> tuple[int, int]:
    """Delete records in two tables; return how many searches and outcomes."""
    counts: list[int] = []
    for table in ("searches", "outcomes"):
        before = connection.total_changes()
        for condition in conditions:
            connection.execute(f"DELETE FROM {table} {condition.format(table=table)}", values)  # noqa: S608
        counts.append(connection.total_changes() - before)
    if counts[1]:
        bump(connection, _OUTCOMES)
    return counts[0], counts[1]
