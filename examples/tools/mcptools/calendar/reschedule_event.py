from __future__ import annotations

from enum import Enum
from typing import Optional

from pydantic import BaseModel, ConfigDict


class Scope(Enum):
    this = "this"
    following = "following"
    all = "all"


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    eventId: str
    start: str
    end: str
    scope: Optional[Scope] = None
    """
    For a recurring event: which occurrences move (default: this)
    """
    notifyAttendees: Optional[bool] = True
    note: Optional[str] = None
    """
    Sentence for the attendees about the change
    """


from . import CLIENT


def run(params: Params) -> str:
    """Move an existing meeting to another date or hour, keeping its guests and description."""
    return CLIENT.run_sync(
        tool_name="reschedule_event", tool_args=params.model_dump(exclude_none=True)
    )
