from __future__ import annotations

from typing import List, Optional

from pydantic import BaseModel, ConfigDict, Field


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    city: str
    checkIn: str
    checkOut: str
    guests: Optional[int] = 2
    maxPricePerNight: Optional[float] = None
    amenities: Optional[List[str]] = None
    """
    Must all be there, such as "parking" or "breakfast"
    """
    minStars: Optional[int] = Field(None, ge=1, le=5)


from . import CLIENT


def run(params: Params) -> str:
    """Find places to stay with vacancies for given nights, with price, rating and terms."""
    return CLIENT.run_sync(
        tool_name="search_hotels", tool_args=params.model_dump(exclude_none=True)
    )
