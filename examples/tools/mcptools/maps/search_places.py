from __future__ import annotations

from typing import Optional

from pydantic import BaseModel, ConfigDict, Field


class Circle(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    latitude: float
    longitude: float
    radiusMeters: float = Field(..., gt=0, le=50000)


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    query: str
    """
    Kind or name of place, such as "pharmacy"
    """
    near: Optional[Circle] = None
    openNow: Optional[bool] = None
    minRating: Optional[float] = Field(None, ge=0, le=5)


from . import CLIENT


def run(params: Params) -> str:
    """Look for restaurants, shops, hotels, sights and other businesses around a point.

    Returns names, addresses, ratings and opening hours, nearest first.
    """
    return CLIENT.run_sync(
        tool_name="search_places", tool_args=params.model_dump(exclude_none=True)
    )
