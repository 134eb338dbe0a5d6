"""The usage record, as figures for people or as single records for programs.

`usage_report` computes figures from the records of a `toolindex.UsageStore`; `as_text`, `as_json`
and `days_as_csv` present them. `outcome_days` computes the figures of one tool.
`records_table` returns the records themselves, which `table_as_csv` and `table_as_json` write.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, fields
from datetime import UTC, date, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from toolindex import OutcomeRecord, SearchRecord, UsageStatistics

from pytools_hybrid.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Record = TypeVar("Record", SearchRecord, OutcomeRecord)

_DAY = 86_400
_TOP = 10
_SHOWN_DAYS = 14
_SHOWN_TOOLS = 15
_QUERY_LENGTH = 70
_DAY_HEADINGS = ("day (UTC)", "searches", "no result", "outcome", "first ok", "p50", "p95")
_TOOL_HEADINGS = ("tool", "outcomes", "success", "found", "p50", "p95")


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


class Table(NamedTuple):
    """A table of JSON values."""

    columns: Sequence[str]
    rows: list[dict[str, Any]]


def usage_report(
    searches: Sequence[SearchRecord], outcomes: Sequence[OutcomeRecord]
) -> UsageReport:
    """Compute the figures of some records.

    Outcomes of searches that are not among the records only count for their tools.
    """
    # The tools that succeeded, for each search with an outcome.
    succeeded: dict[str, set[str]] = {}
    for outcome in outcomes:
        if outcome.search_id is not None:
            tools = succeeded.setdefault(outcome.search_id, set())
            if outcome.success:
                tools.add(outcome.tool_id)
    by_day = _by_day(searches)
    return UsageReport(
        total=_figures(None, searches, succeeded),
        days=tuple(_figures(day, by_day[day], succeeded) for day in sorted(by_day)),
        modes=dict(sorted(Counter(search.mode for search in searches).items())),
        queries=_most_asked(searches),
        queries_without_results=_most_asked(search for search in searches if not search.results),
        queries_failed=_most_asked(
            it
            for it in searches
            if it.results and it.id in succeeded and succeeded[it.id].isdisjoint(it.results)
        ),
        outcomes=len(outcomes),
        tools=_tools(searches, outcomes),
    )


def outcome_days(outcomes: Iterable[OutcomeRecord]) -> dict[date, ToolFigures]:
    """Return the figures of one tool's outcomes for each day with any."""
    by_day = _by_day(outcomes)
    return {day: figures for day, its in by_day.items() for figures in _tools((), its)}


def as_text(report: UsageReport) -> str:
    """Format the figures for people."""
    total = report.total
    modes = ", ".join(f"{count} {mode}" for mode, count in report.modes.items())
    lines = [
        f"{label:<22} {value}"
        for label, value in (
            ("searches", f"{total.searches} ({modes})" if modes else "0"),
            ("without results", _of(total.without_results, total.searches)),
            ("degraded searches", _of(total.degraded, total.searches)),
            ("with an outcome", _of(total.judged, total.searches)),
            ("a result succeeded", f"{_of(total.accepted, total.judged)} of these"),
            ("the first succeeded", f"{_of(total.first_accepted, total.judged)} of these"),
            (
                "search latency",
                f"p50 {_ms(total.latency_p50_ms)}, p95 {_ms(total.latency_p95_ms)}",
            ),
            ("outcomes", str(report.outcomes)),
        )
    ]
    days = [
        (
            str(it.day), str(it.searches), str(it.without_results), str(it.judged),
            _percent(it.acceptance_rate), _ms(it.latency_p50_ms), _ms(it.latency_p95_ms),
        )
        for it in report.days[-_SHOWN_DAYS:]
    ]  # fmt: skip
    tools = [
        (
            it.tool_id, str(it.outcomes), _percent(it.success_rate), str(it.found),
            _ms(it.latency_p50_ms), _ms(it.latency_p95_ms),
        )
        for it in report.tools[:_SHOWN_TOOLS]
    ]  # fmt: skip
    for headings, rows, more, what in (
        (_DAY_HEADINGS, days, len(report.days) - _SHOWN_DAYS, "earlier days: --output csv"),
        (_TOOL_HEADINGS, tools, len(report.tools) - _SHOWN_TOOLS, "more tools: --output json"),
    ):
        if rows:
            widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
            lines.append("")
            for row in (headings, *rows):
                cells = [row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]
                lines.append("  ".join(cells))
        if more > 0:
            lines.append(f"… and {more} {what} has them all")
    for heading, queries in (
        ("top queries", report.queries),
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


def records_table(kind: type[Record], records: Iterable[Record]) -> Table:
    """Return the columns and rows of records; times are ISO 8601 in UTC, with milliseconds."""
    rows = [
        asdict(record)
        | {"at": datetime.fromtimestamp(record.at, UTC).isoformat(timespec="milliseconds")}
        for record in records
    ]
    return Table([column.name for column in fields(kind)], rows)


def table_as_json(table: Table) -> str:
    """Write a table as a JSON array of objects."""
    return json.dumps(table.rows, indent=2) + "\n"


def table_as_csv(table: Table) -> str:
    """Write a table as CSV with a header; compound values are written as JSON."""
    text = io.StringIO()
    writer = csv.DictWriter(text, table.columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {k: json.dumps(it) if isinstance(it, bool | tuple | dict) else it for k, it in row.items()}
        for row in table.rows
    )
    return text.getvalue()


def _figures(
    day: date | None, searches: Sequence[SearchRecord], succeeded: Mapping[str, set[str]]
) -> DayFigures:
    latencies = sorted(search.latency_ms for search in searches)
    judged = [(it.results, succeeded[it.id]) for it in searches if it.id in succeeded]
    return DayFigures(
        day=day,
        searches=len(searches),
        without_results=sum(not search.results for search in searches),
        degraded=sum(bool(search.degraded) for search in searches),
        judged=len(judged),
        accepted=sum(not tools.isdisjoint(results) for results, tools in judged),
        first_accepted=sum(not tools.isdisjoint(results[:1]) for results, tools in judged),
        latency_p50_ms=UsageStatistics.percentile(latencies, 50),
        latency_p95_ms=UsageStatistics.percentile(latencies, 95),
    )


def _by_day(records: Iterable[Record]) -> dict[date, list[Record]]:
    by_day: defaultdict[int, list[Record]] = defaultdict(list)
    for record in records:
        by_day[int(record.at // _DAY)].append(record)
    return {datetime.fromtimestamp(day * _DAY, UTC).date(): its for day, its in by_day.items()}


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
                latency_p50_ms=UsageStatistics.percentile(latencies, 50),
                latency_p95_ms=UsageStatistics.percentile(latencies, 95),
            )
        )
    return tuple(sorted(tools, key=lambda tool: (-tool.outcomes, tool.tool_id)))


def _queries(queries: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    return [{"query": query, "count": count} for query, count in queries]


def _day_row(figures: DayFigures) -> dict[str, Any]:
    return asdict(figures) | {"day": None if figures.day is None else figures.day.isoformat()}


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _of(part: int, whole: int) -> str:
    return f"{part} ({_percent(part / whole)})" if whole else str(part)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def _ms(milliseconds: float | None) -> str:
    return "-" if milliseconds is None else f"{milliseconds:.1f} ms"
