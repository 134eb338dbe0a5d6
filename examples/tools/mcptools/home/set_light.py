from __future__ import annotations

from typing import Optional, Union

from pydantic import BaseModel, ConfigDict, Field, RootModel


class RgbColor(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    red: int = Field(..., ge=0, le=255)
    green: int = Field(..., ge=0, le=255)
    blue: int = Field(..., ge=0, le=255)


class Warmth(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    kelvin: int = Field(..., ge=2000, le=6500)


class Color(RootModel[Union[RgbColor, Warmth]]):
    root: Union[RgbColor, Warmth]


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    target: str
    """
    Device or room
    """
    on: bool
    brightness: Optional[int] = Field(None, ge=1, le=100)
    color: Optional[Color] = None
    transitionSeconds: Optional[float] = None


from . import CLIENT


def run(params: Params) -> str:
    """Switch lamps on or off, dim them or change their colour, in one room or for one device."""
    return CLIENT.run_sync(tool_name="set_light", tool_args=params.model_dump(exclude_none=True))
