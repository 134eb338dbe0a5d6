from __future__ import annotations

from typing import List, Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    channel_id: str
    oldest: Optional[str] = None
    latest: Optional[str] = None
    limit: Optional[int] = 50


class Message(BaseModel):
    model_config = ConfigDict(
        use_enum_values=True,
    )
    ts: str
    user: str
    text: str
    reply_count: Optional[int] = None


class Result(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    messages: List[Message]
    has_more: bool


from . import CLIENT


def run(params: Params) -> Result:
    """Get the recent messages of a channel, to catch up on what the team has been discussing.

    Threads appear as their first message with a reply count.
    """
    result = CLIENT.run_sync(
        tool_name="get_channel_history", tool_args=params.model_dump(exclude_none=True)
    )
    return Result.model_validate(result)
