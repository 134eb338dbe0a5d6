from __future__ import annotations

from enum import Enum
from typing import List, Optional

from pydantic import BaseModel, ConfigDict


class State(Enum):
    open = "open"
    closed = "closed"


class StateReason(Enum):
    completed = "completed"
    not_planned = "not_planned"
    duplicate = "duplicate"
    reopened = "reopened"


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    owner: str
    repo: str
    issue_number: int
    title: Optional[str] = None
    body: Optional[str] = None
    state: Optional[State] = None
    """
    Set to "closed" to close the issue, to "open" to reopen it
    """
    state_reason: Optional[StateReason] = None
    """
    Why the state changes; shown beside it
    """
    labels: Optional[List[str]] = None
    """
    Replaces the present labels; an empty list removes them all
    """
    assignees: Optional[List[str]] = None
    """
    Replaces the present assignees
    """


from . import CLIENT


def run(params: Params) -> str:
    """Change an existing issue: close, reopen, reword or relabel it, or hand it to someone else.

    Fields that are not given stay as they are. Lists replace what is there and do not add to it.
    """
    return CLIENT.run_sync(tool_name="update_issue", tool_args=params.model_dump(exclude_none=True))
