from __future__ import annotations

from pydantic import BaseModel, Field


class MergeReport(BaseModel):
    """What a merge wrote."""

    rows: int = Field(..., title="Rows written, without the header")
    columns: list[str] = Field(..., title="Columns of the merged file")
    duplicates_dropped: int = Field(..., title="Repeated rows left out")


def run(
    inputs: list[str],
    output: str,
    drop_duplicates: bool = False,
    source_column: str | None = None,
) -> MergeReport:
    """Stack several CSV files on top of each other into a single one.

    Columns are matched by header, whatever their order. A column that only some files have is kept
    and left empty elsewhere.

    Args:
        inputs: Paths of the CSV files, in the order in which their rows should appear
        output: Path of the file to write; it is replaced if it exists
        drop_duplicates: Keep only the first of rows that are alike in every column of the inputs
        source_column: Name of an extra column that holds the file each row came from

    Returns:
        How many rows and which columns were written
    """
    from .impl import merge

    return merge(inputs, output, drop_duplicates=drop_duplicates, source_column=source_column)
