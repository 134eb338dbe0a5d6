from __future__ import annotations

from typing import Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    owner: str
    repo: str
    issue_number: int
    """
    The number after the # sign
    """
    include_comments: Optional[bool] = None
    """
    Also return the discussion, oldest comment first (default: false)
    """


from . import CLIENT


def run(params: Params) -> str:
    """Read one issue by its number, with its full description, labels and assignees.

    The discussion below it comes along on request.
    """
    return CLIENT.run_sync(tool_name="get_issue", tool_args=params.model_dump(exclude_none=True))
