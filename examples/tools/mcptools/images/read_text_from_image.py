from __future__ import annotations

from typing import List, Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    path: str
    languages: Optional[List[str]] = None
    """
    ISO 639-1 codes of the languages to expect (default: ["en"])
    """
    boxes: Optional[bool] = None
    """
    Also return where each line is
    """


class Box(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    x: int
    y: int
    width: int
    height: int


class Line(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    text: str
    confidence: float
    box: Optional[Box] = None


class Result(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    text: str
    lines: List[Line]


from . import CLIENT


def run(params: Params) -> Result:
    """Recognize printed or handwritten characters in a photo or scan (OCR).

    Good for receipts, signs, whiteboards and scanned letters. Straight, well-lit pictures of at
    least 150 dpi give the best results.
    """
    result = CLIENT.run_sync(
        tool_name="read_text_from_image", tool_args=params.model_dump(exclude_none=True)
    )
    return Result.model_validate(result)
