from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    repo_path: str
    """
    Directory of the working copy
    """


from . import CLIENT


def run(params: Params) -> str:
    """Show which files of a local working copy are modified, staged, untracked or in conflict."""
    return CLIENT.run_sync(tool_name="git_status", tool_args=params.model_dump(exclude_none=True))
