from __future__ import annotations

from typing import List, Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    path: str
    """
    MP3, M4A, WAV, OGG or a video file, at most 4 hours long
    """
    language: Optional[str] = None
    speakers: Optional[bool] = None
    """
    Tell the speakers apart
    """
    vocabulary: Optional[List[str]] = None
    """
    Names and terms that are likely to occur
    """


class Segment(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    start: float
    end: float
    text: str
    speaker: Optional[str] = None


class Result(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    language: str
    segments: List[Segment]


from . import CLIENT


async def run(params: Params) -> Result:
    """Convert recorded speech, such as a meeting or voice message, into text with time stamps.

    About one minute of work for 15 minutes of sound.
    """
    result = await CLIENT.run(
        tool_name="transcribe_audio", tool_args=params.model_dump(exclude_none=True)
    )
    return Result.model_validate(result)
