from __future__ import annotations

from pydantic import BaseModel, Field


class AgendaDay(BaseModel):
    """One day of the week and what is planned on it."""

    date: str = Field(..., title="Day, as YYYY-MM-DD")
    entries: list[str] = Field(..., title="Lines such as '09:30 Stand-up'")
    booked_hours: float = Field(..., title="Hours taken by events")


def run(first_day: str, utc_offset: str = "+00:00") -> list[AgendaDay]:
    """Lay out a seven-day overview of appointments with the hours booked on each day.

    Args:
        first_day: Day on which the week begins (YYYY-MM-DD)
        utc_offset: Offset from UTC in which days begin and end, such as "+02:00"

    Returns:
        Seven days in order, empty ones included
    """
    from .impl import build_agenda

    return build_agenda(first_day, utc_offset)
