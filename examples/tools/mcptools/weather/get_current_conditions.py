from __future__ import annotations

from typing import Literal, Optional, Union

from pydantic import BaseModel, ConfigDict, Field, RootModel


class Coordinates(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    latitude: float = Field(..., ge=-90, le=90)
    longitude: float = Field(..., ge=-180, le=180)


class Place(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    city: str
    country: Optional[str] = None


class Location(RootModel[Union[Coordinates, Place]]):
    root: Union[Coordinates, Place]


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    location: Location
    units: Optional[Literal["metric", "imperial"]] = None


class Result(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    observedAt: str
    temperature: float
    feelsLike: float
    humidityPercent: int
    windSpeed: float
    windDirection: str
    description: str


from . import CLIENT


def run(params: Params) -> Result:
    """Report the weather at a place right now: temperature, wind, humidity and sky."""
    result = CLIENT.run_sync(
        tool_name="get_current_conditions", tool_args=params.model_dump(exclude_none=True)
    )
    return Result.model_validate(result)
