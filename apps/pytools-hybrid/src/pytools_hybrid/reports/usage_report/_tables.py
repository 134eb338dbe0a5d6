"""The records themselves, as rows for spreadsheets and programs."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from toolindex import OutcomeRecord, SearchRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Table(NamedTuple):
    """A table of JSON values."""

    columns: Sequence[str]
    rows: list[dict[str, Any]]


def searches_table(searches: Iterable[SearchRecord]) -> Table:
    """Return the columns and rows of searches."""
    return _table(SearchRecord, searches)


def outcomes_table(outcomes: Iterable[OutcomeRecord]) -> Table:
    """Return the columns and rows of outcomes."""
    return _table(OutcomeRecord, outcomes)


def table_as_json(table: Table) -> str:
    """Write a table as a JSON array of objects."""
    return json.dumps(table.rows, indent=2) + "\n"


def table_as_csv(table: Table) -> str:
    """Write a table as CSV with a header; compound values are written as JSON."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    for row in table.rows:
        writer.writerow([_cell(row[column]) for column in table.columns])
    return text.getvalue()


def timestamp(at: float) -> str:
    """Format a time as ISO 8601 in UTC, with milliseconds."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def _table(
    kind: type[SearchRecord | OutcomeRecord], records: Iterable[SearchRecord | OutcomeRecord]
) -> Table:
    rows = [asdict(record) | {"at": timestamp(record.at)} for record in records]
    return Table([column.name for column in fields(kind)], rows)


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, tuple | dict) else value
