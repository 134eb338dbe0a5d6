from __future__ import annotations

from typing import List, Optional

from pydantic import BaseModel, ConfigDict, Field


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    repo_path: str
    target: Optional[str] = None
    """
    Branch, tag or commit to compare with (default: the index)
    """
    staged: Optional[bool] = None
    """
    Compare the index with HEAD: what the next commit would contain
    """
    paths: Optional[List[str]] = None
    context_lines: Optional[int] = Field(3, ge=0, description="Unchanged lines around a change")


from . import CLIENT


def run(params: Params) -> str:
    """Show line-by-line changes in a local checkout as a unified diff.

    By default it compares the working tree with the index. Output is cut after 2,000 lines;
    narrow it with paths when that happens.
    """
    return CLIENT.run_sync(tool_name="git_diff", tool_args=params.model_dump(exclude_none=True))
