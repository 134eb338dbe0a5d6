from __future__ import annotations

from typing import Optional

from pydantic import BaseModel, ConfigDict, Field


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    include_archived: Optional[bool] = None
    member_only: Optional[bool] = None
    """
    Only channels the bot has joined
    """
    cursor: Optional[str] = None
    limit: Optional[int] = Field(100, ge=1, le=200)


from . import CLIENT


def run(params: Params) -> str:
    """List the channels of the workspace with their IDs, topics and member counts.

    Other chat tools take IDs and no names, so this is usually the first call.
    """
    return CLIENT.run_sync(
        tool_name="list_channels", tool_args=params.model_dump(exclude_none=True)
    )
