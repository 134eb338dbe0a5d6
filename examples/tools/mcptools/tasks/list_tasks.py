from __future__ import annotations

from typing import Literal, Optional

from pydantic import BaseModel, ConfigDict, Field


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    list_: Optional[str] = Field(None, alias="list")
    status: Optional[Literal["open", "done", "all"]] = None
    dueBefore: Optional[str] = None
    """
    Only what is due by then; today's date gives overdue items as well
    """
    priority: Optional[Literal["low", "normal", "high"]] = None


from . import CLIENT


def run(params: Params) -> str:
    """Show the to-do items that are still open, overdue or already done."""
    return CLIENT.run_sync(
        tool_name="list_tasks", tool_args=params.model_dump(by_alias=True, exclude_none=True)
    )
