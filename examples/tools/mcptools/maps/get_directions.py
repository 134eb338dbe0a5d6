from __future__ import annotations

from enum import Enum
from typing import List, Optional

from pydantic import BaseModel, ConfigDict


class Mode(Enum):
    driving = "driving"
    walking = "walking"
    cycling = "cycling"
    transit = "transit"


class Avoid(Enum):
    tolls = "tolls"
    highways = "highways"
    ferries = "ferries"


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    origin: str
    destination: str
    waypoints: Optional[List[str]] = None
    mode: Optional[Mode] = None
    avoid: Optional[List[Avoid]] = None
    departAt: Optional[str] = None
    """
    Moment of departure, for traffic and timetables
    """


from . import CLIENT


def run(params: Params) -> str:
    """Plan a route from one place to another and return turn-by-turn steps, distance and duration.

    For travel times among many points at once use get_travel_times, which gives no steps.
    """
    return CLIENT.run_sync(
        tool_name="get_directions", tool_args=params.model_dump(exclude_none=True)
    )
