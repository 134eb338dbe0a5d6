from __future__ import annotations

from typing import List, Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    path: str
    outputDirectory: str
    ranges: Optional[List[str]] = None
    """
    One new file per range, such as ["1-4", "5-"]
    """
    everyPages: Optional[int] = None
    """
    Cut after each N pages instead
    """


from . import CLIENT


def run(params: Params) -> str:
    """Cut a PDF into smaller files by page ranges or after a fixed number of pages."""
    return CLIENT.run_sync(tool_name="split_pdf", tool_args=params.model_dump(exclude_none=True))
