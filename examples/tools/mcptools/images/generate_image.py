from __future__ import annotations

from typing import List, Literal, Optional

from pydantic import BaseModel, ConfigDict, Field


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    prompt: str = Field(..., max_length=2000)
    """
    What the picture should show, in plain words
    """
    negativePrompt: Optional[str] = None
    """
    What must not appear
    """
    size: Optional[Literal["square", "portrait", "landscape"]] = None
    count: Optional[int] = Field(1, ge=1, le=4)
    seed: Optional[int] = None
    """
    Same seed and prompt, same picture
    """


class GeneratedImage(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    path: str
    seed: int


class Result(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    images: List[GeneratedImage]


from . import CLIENT


async def run(params: Params) -> Result:
    """Create a new illustration or photo-like picture from a description in words.

    Takes 10 to 40 seconds. Requests for real people's likeness are refused.
    """
    result = await CLIENT.run(
        tool_name="generate_image", tool_args=params.model_dump(exclude_none=True)
    )
    return Result.model_validate(result)
