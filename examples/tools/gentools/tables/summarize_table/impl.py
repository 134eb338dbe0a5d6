from __future__ import annotations

import csv
import math
from collections import Counter
from pathlib import Path
from statistics import fmean

from .api import ColumnSummary, TableSummary


def summarize(path: str, delimiter: str) -> TableSummary:
    """Collect the cells of each column and describe them."""
    with Path(path).open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file, delimiter=delimiter)
        cells: dict[str, list[str]] = {name: [] for name in reader.fieldnames or ()}
        rows = 0
        for row in reader:
            rows += 1
            for name, values in cells.items():
                if value := (row[name] or "").strip():
                    values.append(value)
    return TableSummary(rows=rows, columns=[describe(name, cells[name]) for name in cells])


def describe(name: str, values: list[str]) -> ColumnSummary:
    """Describe one column, as numbers if every filled cell is one."""
    counts = Counter(values)
    summary = ColumnSummary(
        name=name,
        kind="text" if values else "empty",
        filled=len(values),
        distinct=len(counts),
        most_common=counts.most_common(1)[0][0] if counts else None,
    )
    numbers = [number for value in values if (number := parse_number(value)) is not None]
    if values and len(numbers) == len(values):
        summary.kind = "number"
        summary.minimum, summary.maximum = min(numbers), max(numbers)
        summary.mean = fmean(numbers)
    return summary


def parse_number(value: str) -> float | None:
    """Return the finite number that a cell holds, or None."""
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
