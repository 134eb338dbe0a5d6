from __future__ import annotations

from typing import Optional

from pydantic import BaseModel, ConfigDict, Field


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    noteId: str
    depth: Optional[int] = Field(1, ge=1, le=3)
    """
    2 also follows the notes that link to those
    """


from . import CLIENT


def run(params: Params) -> str:
    """Find which notes refer to a given note, to see how ideas are connected."""
    return CLIENT.run_sync(
        tool_name="list_backlinks", tool_args=params.model_dump(exclude_none=True)
    )
