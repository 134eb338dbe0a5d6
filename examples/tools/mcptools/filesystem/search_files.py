from __future__ import annotations

from typing import List, Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    path: str
    """
    Directory to start from
    """
    pattern: str
    """
    Glob such as "**/*.toml"
    """
    excludePatterns: Optional[List[str]] = None
    """
    Globs to leave out, such as "**/node_modules/**"
    """
    maxResults: Optional[int] = 200


from . import CLIENT


def run(params: Params) -> str:
    """Find files by name below a directory, with a glob pattern.

    Only paths are compared. To look for words inside the files, use grep_files.
    """
    return CLIENT.run_sync(tool_name="search_files", tool_args=params.model_dump(exclude_none=True))
