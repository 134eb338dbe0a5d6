from __future__ import annotations

from typing import List, Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    to: Optional[List[str]] = None
    subject: Optional[str] = None
    body: str
    threadId: Optional[str] = None
    """
    Save the draft as an answer in this conversation
    """


from . import CLIENT


def run(params: Params) -> str:
    """Save an unsent message in the Drafts folder for someone to review and send later."""
    return CLIENT.run_sync(tool_name="create_draft", tool_args=params.model_dump(exclude_none=True))
