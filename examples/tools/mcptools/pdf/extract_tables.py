from __future__ import annotations

from typing import Literal, Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    path: str
    pages: Optional[str] = None
    format: Optional[Literal["csv", "json"]] = None
    hasBorders: Optional[bool] = None
    """
    Rely on ruled lines instead of on the alignment of words
    """


from . import CLIENT


def run(params: Params) -> str:
    """Detect tables in a PDF, such as a bank statement or report, and return their rows."""
    return CLIENT.run_sync(
        tool_name="extract_tables", tool_args=params.model_dump(exclude_none=True)
    )
