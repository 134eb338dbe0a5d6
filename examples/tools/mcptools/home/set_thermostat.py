from __future__ import annotations

from enum import Enum
from typing import Optional

from pydantic import BaseModel, ConfigDict, Field


class Mode(Enum):
    heat = "heat"
    cool = "cool"
    auto = "auto"
    off = "off"


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    room: str
    targetTemperature: Optional[float] = Field(None, ge=5, le=30)
    """
    Degrees Celsius
    """
    mode: Optional[Mode] = None
    holdUntil: Optional[str] = None
    """
    Go back to the schedule at this moment
    """


from . import CLIENT


def run(params: Params) -> str:
    """Make a room warmer or cooler by setting the heating or air conditioning."""
    return CLIENT.run_sync(
        tool_name="set_thermostat", tool_args=params.model_dump(exclude_none=True)
    )
