from __future__ import annotations

from enum import Enum
from typing import List, Optional

from pydantic import BaseModel, ConfigDict, Field


class Priority(Enum):
    low = "low"
    normal = "normal"
    high = "high"


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    title: str
    notes: Optional[str] = None
    due: Optional[str] = None
    """
    Day, or moment, by which it should be done
    """
    priority: Optional[Priority] = None
    list_: Optional[str] = Field(None, alias="list", description="Default: the inbox")
    subtasks: Optional[List[str]] = None


from . import CLIENT


def run(params: Params) -> str:
    """Add an item to a to-do list, with a due date, priority and subtasks if you like.

    It makes no noise when due: for an alert at a given time, use set_reminder as well.
    """
    return CLIENT.run_sync(
        tool_name="create_task", tool_args=params.model_dump(by_alias=True, exclude_none=True)
    )
