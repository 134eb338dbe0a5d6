from __future__ import annotations

from enum import Enum
from typing import Optional

from pydantic import BaseModel, ConfigDict


class Interval(Enum):
    field_1d = "1d"
    field_1wk = "1wk"
    field_1mo = "1mo"


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    symbol: str
    start: str
    end: Optional[str] = None
    interval: Optional[Interval] = None
    adjusted: Optional[bool] = True
    """
    Correct for splits and dividends
    """


from . import CLIENT


def run(params: Params) -> str:
    """Retrieve historical open, high, low and close prices of a security over a period."""
    return CLIENT.run_sync(
        tool_name="get_price_history", tool_args=params.model_dump(exclude_none=True)
    )
