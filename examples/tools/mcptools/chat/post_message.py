from __future__ import annotations

from typing import List, Literal, Optional, Union

from pydantic import BaseModel, ConfigDict, RootModel


class TextObject(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    type: Literal["plain", "markdown"]
    text: str


class SectionBlock(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    type: Literal["section"]
    text: TextObject


class DividerBlock(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    type: Literal["divider"]


class ImageBlock(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    type: Literal["image"]
    image_url: str
    alt_text: str


class Block(RootModel[Union[SectionBlock, DividerBlock, ImageBlock]]):
    root: Union[SectionBlock, DividerBlock, ImageBlock]


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    channel_id: str
    """
    Channel, group or user ID. A user ID starts a direct message.
    """
    text: str
    """
    The message; also the text of the notification when blocks are given
    """
    blocks: Optional[List[Block]] = None
    unfurl_links: Optional[bool] = None


from . import CLIENT


def run(params: Params) -> str:
    """Post a new message to a team channel, or write to one colleague directly.

    To answer a particular message use reply_in_thread, which does not notify the whole channel.
    """
    return CLIENT.run_sync(tool_name="post_message", tool_args=params.model_dump(exclude_none=True))
