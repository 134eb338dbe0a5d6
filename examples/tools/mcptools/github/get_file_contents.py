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
    path: str
    """
    Path from the repository root. A directory gives a listing of its entries.
    """
    ref: Optional[str] = None
    """
    Branch, tag or commit to read from (default: the default branch)
    """


from . import CLIENT


def run(params: Params) -> str:
    """Download a file, or list a folder, from a repository hosted on GitHub without cloning it.

    Text comes decoded; binary files come as base64. Files above 1 MB are refused.
    """
    return CLIENT.run_sync(
        tool_name="get_file_contents", tool_args=params.model_dump(exclude_none=True)
    )
