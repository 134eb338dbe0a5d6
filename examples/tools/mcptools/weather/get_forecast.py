from __future__ import annotations

from typing import List, Literal, Optional

from pydantic import BaseModel, ConfigDict, Field


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    latitude: float
    longitude: float
    days: Optional[int] = Field(3, ge=1, le=14)
    hourly: Optional[bool] = None
    """
    Hour by hour instead of day by day; at most 3 days
    """
    units: Optional[Literal["metric", "imperial"]] = None


class ForecastPeriod(BaseModel):
    model_config = ConfigDict(
        use_enum_values=True,
    )
    start: str = Field(..., title="Start of the period")
    low: float = Field(..., title="Lowest temperature")
    high: float = Field(..., title="Highest temperature")
    precipitation_probability: int = Field(..., title="Chance of rain or snow in percent")
    summary: str = Field(..., title="Summary")


class ParseResult(BaseModel):
    model_config = ConfigDict(
        use_enum_values=True,
    )
    periods: List[ForecastPeriod] = Field(..., title="Periods in order of time")


from . import CLIENT


def run(params: Params) -> str:
    """Predict the weather of the coming days or hours: temperatures, chance of rain, snow and wind.

    Beyond a week treat the numbers as a tendency. For a place name, geocode it first.
    """
    return CLIENT.run_sync(tool_name="get_forecast", tool_args=params.model_dump(exclude_none=True))


def run_parsed(params: Params) -> ParseResult:
    """Run tool and return parsed structured data."""
    return ParseResult.model_validate_json(run(params))
