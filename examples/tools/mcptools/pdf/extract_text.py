from __future__ import annotations

from typing import List, Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    path: str
    pages: Optional[str] = None
    """
    Page numbers and ranges, such as "1-3,8" (default: all)
    """
    layout: Optional[bool] = None
    """
    Keep columns and indentation with spaces
    """
    password: Optional[str] = None


class Page(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    number: int
    text: str


class Result(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    pages: List[Page]


from . import CLIENT


def run(params: Params) -> Result:
    """Get the text out of a PDF, page by page.

    Works on documents that contain text. Scanned pages are only pictures and give nothing: run
    read_text_from_image on them.
    """
    result = CLIENT.run_sync(
        tool_name="extract_text", tool_args=params.model_dump(exclude_none=True)
    )
    return Result.model_validate(result)
