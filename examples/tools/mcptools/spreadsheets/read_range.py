from __future__ import annotations

from typing import Literal, Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    spreadsheetId: str
    range: str
    """
    A1 notation with the sheet, such as "Budget!B2:F40"
    """
    valueRender: Optional[Literal["formatted", "raw", "formula"]] = None
    headerRow: Optional[bool] = None
    """
    Treat the first row as names and return objects instead of lists
    """


from . import CLIENT


def run(params: Params) -> str:
    """Read the values in a block of spreadsheet cells."""
    return CLIENT.run_sync(tool_name="read_range", tool_args=params.model_dump(exclude_none=True))
