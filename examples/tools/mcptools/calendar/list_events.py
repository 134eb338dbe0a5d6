from __future__ import annotations

from typing import List, Optional

from pydantic import BaseModel, ConfigDict, Field


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    timeMin: str
    """
    Start of the range (ISO 8601, inclusive)
    """
    timeMax: str
    """
    End of the range (ISO 8601, exclusive)
    """
    calendarId: Optional[str] = "primary"
    q: Optional[str] = None
    """
    Words that the title, place, description or attendees must contain
    """
    maxResults: Optional[int] = Field(50, ge=1, le=250)


class Event(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    eventId: str
    summary: str
    start: str
    end: str
    location: Optional[str] = None
    attendees: Optional[List[str]] = None


class Result(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    events: List[Event]


from . import CLIENT


def run(params: Params) -> Result:
    """Show what is scheduled between two moments.

    Recurring events are expanded into their single occurrences, and the earliest come first.
    """
    result = CLIENT.run_sync(
        tool_name="list_events", tool_args=params.model_dump(exclude_none=True)
    )
    return Result.model_validate(result)
