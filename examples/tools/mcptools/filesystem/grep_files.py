from __future__ import annotations

from typing import List, Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    path: str
    regex: str
    """
    Python regular expression, matched line by line
    """
    glob: Optional[str] = None
    """
    Only files whose path matches
    """
    ignoreCase: Optional[bool] = None
    contextLines: Optional[int] = 0


class Match(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    path: str
    line: int
    text: str


class Result(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    matches: List[Match]
    truncated: bool


from . import CLIENT


def run(params: Params) -> Result:
    """Look for text inside the files of a directory, by regular expression.

    Returns each matching line with its file and line number. Binary files are skipped.
    """
    result = CLIENT.run_sync(tool_name="grep_files", tool_args=params.model_dump(exclude_none=True))
    return Result.model_validate(result)
