from __future__ import annotations

from typing import Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    repo_path: str
    max_count: Optional[int] = 20
    author: Optional[str] = None
    grep: Optional[str] = None
    """
    Regular expression that the commit message must match
    """
    path: Optional[str] = None
    """
    Follow the history of one file, across renames
    """


from . import CLIENT


def run(params: Params) -> str:
    """Browse the local commit log: who changed what and when, by author, message or file."""
    return CLIENT.run_sync(tool_name="git_log", tool_args=params.model_dump(exclude_none=True))
