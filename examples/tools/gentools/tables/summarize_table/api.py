from __future__ import annotations

from pydantic import BaseModel, Field


class ColumnSummary(BaseModel):
    """Figures about one column."""

    name: str = Field(..., title="Header of the column")
    kind: str = Field(..., title="'number', 'text' or 'empty'")
    filled: int = Field(..., title="Cells that hold something")
    distinct: int = Field(..., title="Different values")
    minimum: float | None = Field(None, title="Smallest number")
    maximum: float | None = Field(None, title="Largest number")
    mean: float | None = Field(None, title="Average")
    most_common: str | None = Field(None, title="Value that occurs most often")


class TableSummary(BaseModel):
    """Profile of a whole table."""

    rows: int = Field(..., title="Rows without the header")
    columns: list[ColumnSummary] = Field(..., title="One summary per column")


def run(path: str, delimiter: str = ",") -> TableSummary:
    """Profile a CSV file: data kind, missing cells, range, mean and most common value per column.

    A quick look at unknown data before working with it. The file is read in one pass and its
    rows are never returned.

    Args:
        path: CSV file with a header line
        delimiter: Character between the cells

    Returns:
        Statistics of every column
    """
    from .impl import summarize

    return summarize(path, delimiter)
