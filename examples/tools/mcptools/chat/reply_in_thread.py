from __future__ import annotations

from typing import Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    channel_id: str
    thread_ts: str
    """
    Timestamp of the first message of the thread, for example "1767225600.000100"
    """
    text: str
    also_to_channel: Optional[bool] = None


from . import CLIENT


def run(params: Params) -> str:
    """Answer within the thread under a chat message."""
    return CLIENT.run_sync(
        tool_name="reply_in_thread", tool_args=params.model_dump(exclude_none=True)
    )
