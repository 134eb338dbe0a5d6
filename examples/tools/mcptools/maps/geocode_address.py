from __future__ import annotations

from typing import List, Literal, Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    address: str
    region: Optional[str] = None
    """
    Two-letter country code to prefer when the address is ambiguous
    """


class Candidate(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    formattedAddress: str
    latitude: float
    longitude: float
    precision: Literal["rooftop", "street", "city", "region"]


class Result(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    candidates: List[Candidate]


from . import CLIENT


def run(params: Params) -> Result:
    """Turn a postal address or place name into latitude and longitude."""
    result = CLIENT.run_sync(
        tool_name="geocode_address", tool_args=params.model_dump(exclude_none=True)
    )
    return Result.model_validate(result)
