from __future__ import annotations

from typing import Literal, Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    eventId: str
    response: Literal["accepted", "declined", "tentative"]
    comment: Optional[str] = None
    """
    Seen by the organizer
    """


from . import CLIENT


def run(params: Params) -> str:
    """Accept, decline or tentatively accept an invitation you have received."""
    return CLIENT.run_sync(
        tool_name="respond_to_invitation", tool_args=params.model_dump(exclude_none=True)
    )
