from __future__ import annotations

from typing import List, Literal, Optional

from pydantic import BaseModel, ConfigDict, Field


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    origins: List[str] = Field(..., max_length=25)
    destinations: List[str] = Field(..., max_length=25)
    mode: Optional[Literal["driving", "walking", "cycling", "transit"]] = None


from . import CLIENT


def run(params: Params) -> str:
    """Compute how long and how far it is from every origin to every destination, as a matrix."""
    return CLIENT.run_sync(
        tool_name="get_travel_times", tool_args=params.model_dump(exclude_none=True)
    )
