from __future__ import annotations

from typing import Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    spreadsheetId: str
    title: str
    rows: Optional[int] = 1000
    columns: Optional[int] = 26
    copyFrom: Optional[str] = None
    """
    Title of a tab to duplicate
    """


from . import CLIENT


def run(params: Params) -> str:
    """Create another tab in a workbook, empty or as a copy of an existing one."""
    return CLIENT.run_sync(
        tool_name="add_worksheet", tool_args=params.model_dump(exclude_none=True)
    )
