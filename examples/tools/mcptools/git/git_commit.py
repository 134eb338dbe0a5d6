from __future__ import annotations

from typing import List, Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    repo_path: str
    message: str
    """
    Summary line of at most 72 characters, a blank line, then the details
    """
    add: Optional[List[str]] = None
    """
    Paths to stage first. Without it only what is staged already is recorded.
    """
    amend: Optional[bool] = None
    """
    Replace the last commit instead of adding one
    """


class Result(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    commit: str
    branch: str
    files_changed: int


from . import CLIENT


def run(params: Params) -> Result:
    """Record staged changes in the local repository with a message. Nothing is pushed.

    Hooks run; when one of them fails, its output is returned and no commit is made.
    """
    result = CLIENT.run_sync(tool_name="git_commit", tool_args=params.model_dump(exclude_none=True))
    return Result.model_validate(result)
