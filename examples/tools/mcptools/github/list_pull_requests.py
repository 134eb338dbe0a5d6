from __future__ import annotations

from enum import Enum
from typing import Optional

from pydantic import BaseModel, ConfigDict


class State(Enum):
    open = "open"
    closed = "closed"
    all = "all"


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    owner: str
    repo: str
    state: Optional[State] = None
    head: Optional[str] = None
    """
    Only from this branch, as "login:branch"
    """
    base: Optional[str] = None
    """
    Only into this branch
    """
    page: Optional[int] = None
    perPage: Optional[int] = None


from . import CLIENT


def run(params: Params) -> str:
    """List pull requests of a repository with author, branches, draft flag and review state."""
    return CLIENT.run_sync(
        tool_name="list_pull_requests", tool_args=params.model_dump(exclude_none=True)
    )
