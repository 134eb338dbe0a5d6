from __future__ import annotations

from pydantic import BaseModel, Field


class PackingAdvice(BaseModel):
    """What to pack, and the weather that it is based on."""

    items: list[str] = Field(..., title="Things to pack")
    lowest: float = Field(..., title="Lowest temperature expected, in degrees Celsius")
    highest: float = Field(..., title="Highest temperature expected, in degrees Celsius")
    rain_likely: bool = Field(..., title="Whether any day has a rain chance above 40 percent")


def run(destination: str, days: int = 5) -> PackingAdvice:
    """Advise which clothes to take on a trip, from the forecast at the destination.

    Args:
        destination: Address or city
        days: Length of the stay, starting today (at most 14)

    Returns:
        Suggested items with the temperatures behind them
    """
    from .impl import advise

    return advise(destination, days)
