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
    organization: Optional[str] = None
    """
    Fork into this organization instead of your own account
    """
    default_branch_only: Optional[bool] = None


from . import CLIENT


def run(params: Params) -> str:
    """Copy someone else's repository into your account or organization, so that you can push to it.

    Forking happens in the background: the new repository may take a minute to become readable.
    """
    return CLIENT.run_sync(
        tool_name="fork_repository", tool_args=params.model_dump(exclude_none=True)
    )
