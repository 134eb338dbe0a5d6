from __future__ import annotations

from typing import Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    sql: str
    analyze: Optional[bool] = None
    """
    Really run the query and measure it, instead of estimating
    """


from . import CLIENT


def run(params: Params) -> str:
    """Get the execution plan of a slow query: scans, joins, index use and estimated cost."""
    return CLIENT.run_sync(
        tool_name="explain_query", tool_args=params.model_dump(exclude_none=True)
    )
