from __future__ import annotations

from typing import List, Optional

from pydantic import BaseModel, ConfigDict, Field


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    owner: str
    repo: str
    sha: Optional[str] = None
    """
    Branch, tag or commit to start from
    """
    path: Optional[str] = None
    """
    Only commits that touched this file or folder
    """
    author: Optional[str] = None
    """
    GitHub login or email address
    """
    since: Optional[str] = None
    until: Optional[str] = None
    perPage: Optional[int] = None


class Commit(BaseModel):
    model_config = ConfigDict(
        use_enum_values=True,
    )
    sha: str = Field(..., title="Commit hash")
    message: str = Field(..., title="Whole commit message")
    author: str = Field(..., title="Name of the author")
    date: str = Field(..., title="Author date", description="ISO 8601, UTC")


class ParseResult(BaseModel):
    model_config = ConfigDict(
        use_enum_values=True,
    )
    commits: List[Commit] = Field(..., title="Commits, newest first")


from . import CLIENT


def run(params: Params) -> str:
    """Show the commit history of a branch on GitHub, newest first, with authors and messages.

    For a clone on this machine use the git category, which also sees commits not pushed yet.
    """
    return CLIENT.run_sync(tool_name="list_commits", tool_args=params.model_dump(exclude_none=True))


def run_parsed(params: Params) -> ParseResult:
    """Run tool and return parsed structured data."""
    return ParseResult.model_validate_json(run(params))
