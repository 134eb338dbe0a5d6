from __future__ import annotations

from enum import Enum
from typing import List, Optional

from pydantic import BaseModel, ConfigDict


class State(Enum):
    open = "open"
    closed = "closed"
    all = "all"


class Sort(Enum):
    created = "created"
    updated = "updated"
    comments = "comments"


class Direction(Enum):
    asc = "asc"
    desc = "desc"


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    owner: str
    repo: str
    state: Optional[State] = None
    """
    Which issues to include (default: open)
    """
    labels: Optional[List[str]] = None
    """
    Only issues that carry all of these labels
    """
    assignee: Optional[str] = None
    """
    A login, "none" for issues nobody has taken, "*" for issues that somebody has
    """
    since: Optional[str] = None
    """
    Only issues touched at or after this moment (ISO 8601)
    """
    sort: Optional[Sort] = None
    direction: Optional[Direction] = None
    page: Optional[int] = None
    perPage: Optional[int] = None
    """
    Page size, at most 100 (default: 30)
    """


from . import CLIENT


def run(params: Params) -> str:
    """List the issues of one repository by state, label, assignee or date of last activity.

    Pull requests are left out. Bodies are cut at 500 characters: call get_issue for the whole
    text.
    """
    return CLIENT.run_sync(tool_name="list_issues", tool_args=params.model_dump(exclude_none=True))
