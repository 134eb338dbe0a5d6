from __future__ import annotations

from pydantic import BaseModel, Field


class Conversion(BaseModel):
    """What a conversion wrote."""

    rows: int = Field(..., title="Rows written")
    columns: list[str] = Field(..., title="Columns, nested keys joined by the separator")


def run(input: str, output: str, separator: str = ".") -> Conversion:
    """Convert a JSON array, or JSON Lines, to a flat CSV that a spreadsheet can open.

    Nested objects become columns such as ``address.city``. Lists stay as JSON text in one cell.

    Args:
        input: File with an array of objects, or with one object per line
        output: CSV file to write
        separator: Text between the keys of nested objects

    Returns:
        Number of rows and names of the columns
    """
    from .impl import convert

    return convert(input, output, separator)
