from __future__ import annotations

from datetime import date, timedelta

from .api import Difference


def difference(start: str, end: str, holidays: list[str]) -> Difference:
    """Measure the distance between two ISO dates."""
    first, last = date.fromisoformat(start), date.fromisoformat(end)
    if last < first:
        raise ValueError(f"{end} is before {start}; swap the dates")
    days = (last - first).days
    off = {date.fromisoformat(holiday) for holiday in holidays}
    months = (last.year - first.year) * 12 + last.month - first.month - (last.day < first.day)
    return Difference(
        days=days,
        weeks=round(days / 7, 2),
        working_days=sum(
            day.weekday() < 5 and day not in off
            for day in (first + timedelta(days=offset) for offset in range(days))
        ),
        years=months // 12,
        months=months % 12,
    )
