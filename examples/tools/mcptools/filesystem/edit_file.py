from __future__ import annotations

from typing import List, Optional

from pydantic import BaseModel, ConfigDict


class Edit(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    oldText: str
    """
    Text to look for. It must match exactly, indentation included, and only once.
    """
    newText: str
    """
    Text to put in its place
    """


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    path: str
    edits: List[Edit]
    """
    Applied in order; when one of them does not match, none is applied
    """
    dryRun: Optional[bool] = None
    """
    Return the diff and leave the file alone
    """


from . import CLIENT


def run(params: Params) -> str:
    """Replace passages inside an existing text file and return a diff of what changed."""
    return CLIENT.run_sync(tool_name="edit_file", tool_args=params.model_dump(exclude_none=True))
