from __future__ import annotations

from typing import List, Optional

from pydantic import BaseModel, ConfigDict, Field


class WorkingHours(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    start: str = Field("09:00", description="Local time, HH:MM")
    end: str = Field("17:00", description="Local time, HH:MM")
    weekdaysOnly: Optional[bool] = True


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    participants: List[str]
    """
    Email addresses whose calendars must all be open
    """
    durationMinutes: int
    """
    Length needed, breaks included
    """
    windowStart: str
    windowEnd: str
    timeZone: str
    workingHours: Optional[WorkingHours] = None
    maxSlots: Optional[int] = 5


class Slot(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    start: str
    end: str


class Result(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    slots: List[Slot]
    unavailable: List[str]
    """
    Participants whose calendar could not be read
    """


from . import CLIENT


def run(params: Params) -> Result:
    """Suggest times at which everybody is available, by comparing the busy hours of several people.

    Only availability is read; titles and details of other people's appointments stay private,
    and nothing is booked. Slots come earliest first, and never cross midnight.
    """
    result = CLIENT.run_sync(
        tool_name="find_free_slots", tool_args=params.model_dump(exclude_none=True)
    )
    return Result.model_validate(result)
