from __future__ import annotations

from typing import Literal, Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    path: str
    output: str
    width: Optional[int] = None
    height: Optional[int] = None
    """
    Give one side to keep the proportions, both to force a size
    """
    fit: Optional[Literal["contain", "cover", "stretch"]] = None
    """
    What to do when both sides are given: add margins, crop, or distort
    """


from . import CLIENT


def run(params: Params) -> str:
    """Scale a picture up or down, or crop it to fit given dimensions in pixels."""
    return CLIENT.run_sync(tool_name="resize_image", tool_args=params.model_dump(exclude_none=True))
