from __future__ import annotations

from enum import Enum
from typing import Optional

from pydantic import BaseModel, ConfigDict


class SortBy(Enum):
    cpu = "cpu"
    memory = "memory"
    pid = "pid"
    started = "started"


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    nameContains: Optional[str] = None
    user: Optional[str] = None
    listeningOnPort: Optional[int] = None
    """
    Only the program that holds this TCP port open
    """
    sortBy: Optional[SortBy] = None
    limit: Optional[int] = 50


from . import CLIENT


def run(params: Params) -> str:
    """List running programs with their process IDs, owner, and CPU and memory use."""
    return CLIENT.run_sync(
        tool_name="list_processes", tool_args=params.model_dump(exclude_none=True)
    )
