from __future__ import annotations

from enum import Enum
from typing import Optional

from pydantic import BaseModel, ConfigDict


class MergeMethod(Enum):
    merge = "merge"
    squash = "squash"
    rebase = "rebase"


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    owner: str
    repo: str
    pull_number: int
    merge_method: Optional[MergeMethod] = None
    """
    How to combine the commits (default: merge)
    """
    commit_title: Optional[str] = None
    commit_message: Optional[str] = None
    sha: Optional[str] = None
    """
    Refuse unless the head branch is still at this commit
    """


class Result(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    merged: bool
    sha: str
    message: str


from . import CLIENT


def run(params: Params) -> Result:
    """Merge an approved pull request into its base branch on GitHub.

    This cannot be undone. Check first that required reviews and status checks have passed: a
    branch that is behind, in conflict or protected is refused with 405 and nothing is changed.
    """
    result = CLIENT.run_sync(
        tool_name="merge_pull_request", tool_args=params.model_dump(exclude_none=True)
    )
    return Result.model_validate(result)
