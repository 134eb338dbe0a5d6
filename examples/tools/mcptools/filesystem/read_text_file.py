from __future__ import annotations

from typing import Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    path: str
    head: Optional[int] = None
    """
    Only the first N lines
    """
    tail: Optional[int] = None
    """
    Only the last N lines; cannot be combined with head
    """
    encoding: Optional[str] = "utf-8"


class Result(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    content: str


from . import CLIENT


def run(params: Params) -> Result:
    """Return the contents of one text file from the local disk.

    Use head or tail for logs and other long files. For a PDF use the pdf category, for a picture
    the images category.
    """
    result = CLIENT.run_sync(
        tool_name="read_text_file", tool_args=params.model_dump(exclude_none=True)
    )
    return Result.model_validate(result)
