from __future__ import annotations

from typing import Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    latitude: float
    longitude: float
    language: Optional[str] = None


from . import CLIENT


def run(params: Params) -> str:
    """Find the street address nearest to a pair of coordinates."""
    return CLIENT.run_sync(
        tool_name="reverse_geocode", tool_args=params.model_dump(exclude_none=True)
    )
