"""The records themselves, as rows that spreadsheets and programs read."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolindex import OutcomeRecord, SearchRecord

_SEARCH_COLUMNS = (
    "id", "at", "query", "mode", "parameters", "results", "latency_ms", "degraded"
)  # fmt: skip
_OUTCOME_COLUMNS = ("at", "tool_id", "success", "latency_ms", "search_id")


class Table(NamedTuple):
    """Rows of values of JSON.

    Attributes:
        columns: Their names, in order.
        rows: The values of each row, by column.
    """

    columns: Sequence[str]
    rows: list[dict[str, Any]]


def searches_table(searches: Iterable[SearchRecord]) -> Table:
    """Return the columns and rows of searches."""
    rows = [
        {
            "id": search.id,
            "at": timestamp(search.at),
            "query": search.query,
            "mode": search.mode,
            "parameters": dict(search.parameters),
            "results": list(search.results),
            "latency_ms": search.latency_ms,
            "degraded": list(search.degraded),
        }
        for search in searches
    ]
    return Table(_SEARCH_COLUMNS, rows)


def outcomes_table(outcomes: Iterable[OutcomeRecord]) -> Table:
    """Return the columns and rows of outcomes."""
    rows = [
        {
            "at": timestamp(outcome.at),
            "tool_id": outcome.tool_id,
            "success": outcome.success,
            "latency_ms": outcome.latency_ms,
            "search_id": outcome.search_id,
        }
        for outcome in outcomes
    ]
    return Table(_OUTCOME_COLUMNS, rows)


def table_as_json(table: Table) -> str:
    """Write a table as a JSON array of objects."""
    return json.dumps(table.rows, indent=2) + "\n"


def table_as_csv(table: Table) -> str:
    """Write a table as CSV with a line of names; what is not one value is written as JSON."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    for row in table.rows:
        writer.writerow([_cell(row[column]) for column in table.columns])
    return text.getvalue()


def timestamp(at: float) -> str:
    """Write a moment as ISO 8601, UTC, to the millisecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, list | dict) else value
