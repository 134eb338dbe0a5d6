from __future__ import annotations

from typing import Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    taskId: str
    completedAt: Optional[str] = None


from . import CLIENT


def run(params: Params) -> str:
    """Tick off a to-do item as done. A repeating item moves on to its next date."""
    return CLIENT.run_sync(
        tool_name="complete_task", tool_args=params.model_dump(exclude_none=True)
    )
