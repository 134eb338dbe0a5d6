from __future__ import annotations

from typing import List, Optional

from pydantic import BaseModel, ConfigDict, Field


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    from_: Optional[str] = Field(None, alias="from", description="Sender, in full or in part")
    to: Optional[str] = None
    subject: Optional[str] = None
    text: Optional[str] = None
    """
    Words anywhere in the message
    """
    after: Optional[str] = None
    """
    First day to include (YYYY-MM-DD)
    """
    before: Optional[str] = None
    hasAttachment: Optional[bool] = None
    unreadOnly: Optional[bool] = None
    folder: Optional[str] = None
    limit: Optional[int] = 25


class MessageSummary(BaseModel):
    model_config = ConfigDict(
        use_enum_values=True,
    )
    messageId: str = Field(..., title="Message ID")
    threadId: str = Field(..., title="Thread ID")
    sender: str = Field(..., title="Sender")
    subject: str = Field(..., title="Subject")
    date: str = Field(..., title="Date received")
    snippet: str = Field(..., title="Snippet", description="First 150 characters of the text")


class ParseResult(BaseModel):
    model_config = ConfigDict(
        use_enum_values=True,
    )
    messages: List[MessageSummary] = Field(..., title="Matching messages, newest first")
    more: bool = Field(False, title="More", description="Whether the limit cut the list")


from . import CLIENT


def run(params: Params) -> str:
    """Search the mailbox by sender, recipient, subject, words, date or attachment.

    All conditions must hold. Returns JSON with one line per message and no bodies; pass the
    threadId to read_thread to get the text.
    """
    return CLIENT.run_sync(
        tool_name="search_messages", tool_args=params.model_dump(by_alias=True, exclude_none=True)
    )


def run_parsed(params: Params) -> ParseResult:
    """Search the mailbox by sender, recipient, subject, words, date or attachment; typed result.

    All conditions must hold. Gives sender, subject, date and a snippet per message, newest
    first; pass a summary's threadId to read_thread to get the full text.
    """
    return ParseResult.model_validate_json(run(params))
