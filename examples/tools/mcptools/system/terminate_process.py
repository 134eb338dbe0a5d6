from __future__ import annotations

from typing import Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    pid: int
    force: Optional[bool] = None
    """
    Kill at once instead of asking first and waiting 10 seconds
    """
    includeChildren: Optional[bool] = None


from . import CLIENT


def run(params: Params) -> str:
    """Stop a running program by its process ID."""
    return CLIENT.run_sync(
        tool_name="terminate_process", tool_args=params.model_dump(exclude_none=True)
    )
