from __future__ import annotations

from typing import List, Optional

from pydantic import BaseModel, ConfigDict


class Attachment(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    path: str
    """
    Local file to attach
    """
    filename: Optional[str] = None
    mimeType: Optional[str] = None


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    to: List[str]
    subject: str
    body: str
    cc: Optional[List[str]] = None
    bcc: Optional[List[str]] = None
    replyTo: Optional[str] = None
    html: Optional[bool] = None
    """
    The body is HTML instead of plain text
    """
    attachments: Optional[List[Attachment]] = None
    inReplyTo: Optional[str] = None
    """
    Message ID being answered, which keeps the thread together
    """


from . import CLIENT


def run(params: Params) -> str:
    """Send an email now, to one or more recipients, with attachments if needed.

    There is no undo. When a person should look at the text before it leaves, use create_draft.
    Attachments may total 25 MB.
    """
    return CLIENT.run_sync(tool_name="send_email", tool_args=params.model_dump(exclude_none=True))
