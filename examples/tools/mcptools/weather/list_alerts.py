from __future__ import annotations

from enum import Enum
from typing import Optional

from pydantic import BaseModel, ConfigDict


class Severity(Enum):
    minor = "minor"
    moderate = "moderate"
    severe = "severe"
    extreme = "extreme"


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    region: str
    """
    Country, state or county code
    """
    minimumSeverity: Optional[Severity] = None


from . import CLIENT


def run(params: Params) -> str:
    """List official warnings in force for a region, such as storms, floods, heat or ice."""
    return CLIENT.run_sync(tool_name="list_alerts", tool_args=params.model_dump(exclude_none=True))
