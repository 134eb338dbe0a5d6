from __future__ import annotations

from typing import List, Optional

from pydantic import BaseModel, ConfigDict, Field


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    messageIds: List[str] = Field(..., max_length=500)
    add: Optional[List[str]] = None
    remove: Optional[List[str]] = None
    """
    Removing "INBOX" archives, removing "UNREAD" marks as read
    """


from . import CLIENT


def run(params: Params) -> str:
    """Sort messages in bulk: add or remove labels, archive, star, mark as read or as spam."""
    return CLIENT.run_sync(
        tool_name="label_messages", tool_args=params.model_dump(exclude_none=True)
    )
