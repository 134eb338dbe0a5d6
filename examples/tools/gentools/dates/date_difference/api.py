from __future__ import annotations

from pydantic import BaseModel, Field


class Difference(BaseModel):
    """Time between two dates, in several units."""

    days: int = Field(..., title="Calendar days")
    weeks: float = Field(..., title="Weeks")
    working_days: int = Field(..., title="Mondays to Fridays that are not holidays")
    years: int = Field(..., title="Whole years")
    months: int = Field(..., title="Whole months beyond the years")


def run(start: str, end: str, holidays: list[str] | None = None) -> Difference:
    """Count the days, working days, weeks and months from one date to another.

    The first day counts and the last does not. Answers how old something is, how long until a
    deadline, or how many business days a delivery takes.

    Args:
        start: First date (YYYY-MM-DD)
        end: Second date (YYYY-MM-DD), not before the first
        holidays: Dates that are not working days

    Returns:
        The distance in each unit
    """
    from .impl import difference

    return difference(start, end, holidays or [])
