from __future__ import annotations

from typing import List, Literal, Optional

from pydantic import BaseModel, ConfigDict


class EventTime(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    dateTime: Optional[str] = None
    """
    Moment with offset, such as "2026-03-02T14:00:00+01:00"
    """
    date: Optional[str] = None
    """
    Day, for events that last all day
    """
    timeZone: Optional[str] = None
    """
    IANA name, needed for recurring events
    """


class Attendee(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    email: str
    optional: Optional[bool] = None


class Reminder(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    method: Literal["email", "popup"]
    minutes: int
    """
    How long before the start
    """


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    summary: str
    """
    Title of the event
    """
    start: EventTime
    end: EventTime
    location: Optional[str] = None
    description: Optional[str] = None
    attendees: Optional[List[Attendee]] = None
    recurrence: Optional[List[str]] = None
    """
    RRULE lines, such as "RRULE:FREQ=WEEKLY;BYDAY=MO"
    """
    reminders: Optional[List[Reminder]] = None
    calendarId: Optional[str] = "primary"
    addVideoCall: Optional[bool] = None


class Result(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    eventId: str
    htmlLink: str
    videoCallUrl: Optional[str] = None


from . import CLIENT


def run(params: Params) -> Result:
    """Put a meeting or appointment into a calendar and invite people to it.

    Attendees get an invitation at once. The tool does not look for conflicts: when the time is
    still open, ask find_free_slots first.

    For an all-day event give only dates, with the end date exclusive: a holiday on 1 May starts
    on 05-01 and ends on 05-02.
    """
    result = CLIENT.run_sync(
        tool_name="create_event", tool_args=params.model_dump(exclude_none=True)
    )
    return Result.model_validate(result)
