from __future__ import annotations

from datetime import datetime, timedelta

from mcptools.calendar import list_events

from .api import AgendaDay


def build_agenda(first_day: str, utc_offset: str) -> list[AgendaDay]:
    """Read a week of events and spread them over its days."""
    start = datetime.fromisoformat(f"{first_day}T00:00:00{utc_offset}")
    result = list_events.run(
        list_events.Params(
            timeMin=start.isoformat(),
            timeMax=(start + timedelta(days=7)).isoformat(),
            maxResults=250,
        )
    )
    days = []
    for offset in range(7):
        day = (start + timedelta(days=offset)).date()
        entries, hours = [], 0.0
        for event in result.events:
            begin = datetime.fromisoformat(event.start)
            if "T" not in event.start:
                if begin.date() == day:
                    entries.append(f"all day {event.summary}")
                continue
            begin = begin.astimezone(start.tzinfo)
            if begin.date() == day:
                entries.append(f"{begin:%H:%M} {event.summary}")
                hours += (datetime.fromisoformat(event.end) - begin) / timedelta(hours=1)
        days.append(AgendaDay(date=day.isoformat(), entries=entries, booked_hours=hours))
    return days
