from __future__ import annotations

from typing import Literal, Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    message: str
    at: str
    """
    When to alert, as an ISO 8601 moment
    """
    repeat: Optional[Literal["daily", "weekly", "monthly", "yearly"]] = None
    taskId: Optional[str] = None
    """
    To-do item that the alert belongs to
    """


from . import CLIENT


def run(params: Params) -> str:
    """Notify the user at a given time with a short message on all of their devices."""
    return CLIENT.run_sync(tool_name="set_reminder", tool_args=params.model_dump(exclude_none=True))
