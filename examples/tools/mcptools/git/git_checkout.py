from __future__ import annotations

from typing import Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    repo_path: str
    branch: str
    create: Optional[bool] = None
    """
    Create the branch first
    """
    start_point: Optional[str] = None
    """
    Where a new branch begins (default: HEAD)
    """


from . import CLIENT


def run(params: Params) -> str:
    """Switch the local working copy to another branch, creating the branch when asked.

    Refuses when uncommitted changes would be overwritten.
    """
    return CLIENT.run_sync(tool_name="git_checkout", tool_args=params.model_dump(exclude_none=True))
