from __future__ import annotations

from typing import Optional

from pydantic import BaseModel, ConfigDict, Field


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    text: str = Field(..., max_length=5000)
    output: str
    voice: Optional[str] = None
    speed: Optional[float] = Field(1.0, ge=0.5, le=2.0)


from . import CLIENT


def run(params: Params) -> str:
    """Read a text aloud with a synthetic voice and save the recording as an MP3."""
    return CLIENT.run_sync(
        tool_name="text_to_speech", tool_args=params.model_dump(exclude_none=True)
    )
