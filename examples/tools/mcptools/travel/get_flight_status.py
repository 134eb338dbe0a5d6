from __future__ import annotations

from typing import Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    flightNumber: str
    date: Optional[str] = None
    """
    Local day of departure (default: today)
    """


from . import CLIENT


def run(params: Params) -> str:
    """Check whether a flight is on time, delayed or cancelled, and its terminal and gate."""
    return CLIENT.run_sync(
        tool_name="get_flight_status", tool_args=params.model_dump(exclude_none=True)
    )
