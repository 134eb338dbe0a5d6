from __future__ import annotations

from typing import Literal, Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    threadId: str
    format: Optional[Literal["text", "html"]] = None
    stripQuotes: Optional[bool] = True
    """
    Drop the quoted history below each answer
    """


from . import CLIENT


def run(params: Params) -> str:
    """Read a whole email conversation in order: headers, bodies and the names of attachments."""
    return CLIENT.run_sync(tool_name="read_thread", tool_args=params.model_dump(exclude_none=True))
