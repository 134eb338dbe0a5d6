from __future__ import annotations

from typing import List, Optional

from pydantic import BaseModel, ConfigDict, Field


class Source(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    path: str
    pages: Optional[str] = None
    """
    Take only these pages
    """


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    sources: List[Source] = Field(..., min_length=2)
    """
    In the order in which they should appear
    """
    output: str
    addBookmarks: Optional[bool] = None
    """
    One bookmark per source, named after the file
    """


from . import CLIENT


def run(params: Params) -> str:
    """Join several PDF documents, or chosen pages of them, into one file."""
    return CLIENT.run_sync(tool_name="merge_pdfs", tool_args=params.model_dump(exclude_none=True))
