from __future__ import annotations

from typing import Any, Dict, List, Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    spreadsheetId: str
    sheet: str
    rows: List[Dict[str, Any]]
    """
    One object per row, keyed by column title
    """
    createMissingColumns: Optional[bool] = None


from . import CLIENT


def run(params: Params) -> str:
    """Add records at the bottom of a spreadsheet table, matching values to columns by title."""
    return CLIENT.run_sync(tool_name="append_rows", tool_args=params.model_dump(exclude_none=True))
