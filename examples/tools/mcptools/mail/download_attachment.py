from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    messageId: str
    attachmentId: str
    saveTo: str
    """
    Directory or file path on this machine
    """


from . import CLIENT


def run(params: Params) -> str:
    """Save a file attached to an email to the local disk and return its path, size and type."""
    return CLIENT.run_sync(
        tool_name="download_attachment", tool_args=params.model_dump(exclude_none=True)
    )
