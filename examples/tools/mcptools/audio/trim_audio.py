from __future__ import annotations

from typing import Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    path: str
    output: str
    start: Optional[float] = 0
    """
    Second at which to begin
    """
    end: Optional[float] = None
    fadeSeconds: Optional[float] = None
    normalize: Optional[bool] = None
    """
    Even out the loudness
    """


from . import CLIENT


def run(params: Params) -> str:
    """Cut a clip out of a recording, with fades and a steady volume."""
    return CLIENT.run_sync(tool_name="trim_audio", tool_args=params.model_dump(exclude_none=True))
