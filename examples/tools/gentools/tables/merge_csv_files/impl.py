from __future__ import annotations

import csv
from pathlib import Path

from .api import MergeReport


def merge(
    inputs: list[str],
    output: str,
    *,
    drop_duplicates: bool,
    source_column: str | None,
) -> MergeReport:
    """Read all the files, unite their columns and write the rows."""
    columns: dict[str, None] = {}
    rows: dict[object, dict[str, str]] = {}
    read = 0
    for name in inputs:
        with Path(name).open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            header = reader.fieldnames or ()
            columns.update(dict.fromkeys(header))
            for row in reader:
                read += 1
                filled = frozenset((column, row[column]) for column in header if row[column])
                if source_column:
                    row[source_column] = Path(name).name
                rows.setdefault(filled if drop_duplicates else read, row)
    if source_column:
        columns[source_column] = None

    with Path(output).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(columns), restval="", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows.values())
    return MergeReport(rows=len(rows), columns=list(columns), duplicates_dropped=read - len(rows))
