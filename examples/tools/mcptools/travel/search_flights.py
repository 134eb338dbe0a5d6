from __future__ import annotations

from enum import Enum
from typing import Optional

from pydantic import BaseModel, ConfigDict, Field


class CabinClass(Enum):
    economy = "economy"
    premium_economy = "premium_economy"
    business = "business"
    first = "first"


class Passengers(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    adults: int = Field(1, ge=1, le=9)
    children: Optional[int] = 0
    infants: Optional[int] = 0


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    from_: str = Field(..., alias="from", description="IATA code of the airport or city")
    to: str
    departOn: str
    returnOn: Optional[str] = None
    """
    Leave out for a one-way trip
    """
    passengers: Optional[Passengers] = None
    class_: Optional[CabinClass] = Field(None, alias="class")
    maxStops: Optional[int] = None
    flexibleDays: Optional[int] = Field(0, ge=0, le=3)


from . import CLIENT


def run(params: Params) -> str:
    """Compare airline offers between two airports by price, duration and number of stops.

    Prices include taxes and are held for 15 minutes. Nothing is booked.
    """
    return CLIENT.run_sync(
        tool_name="search_flights", tool_args=params.model_dump(by_alias=True, exclude_none=True)
    )
