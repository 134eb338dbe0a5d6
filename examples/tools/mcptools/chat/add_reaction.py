from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    channel_id: str
    timestamp: str
    reaction: str
    """
    Emoji name without colons, such as "white_check_mark"
    """


from . import CLIENT


def run(params: Params) -> str:
    """React to a chat message with an emoji."""
    return CLIENT.run_sync(tool_name="add_reaction", tool_args=params.model_dump(exclude_none=True))
