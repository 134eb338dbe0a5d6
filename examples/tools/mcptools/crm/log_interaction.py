from __future__ import annotations

from typing import Literal, Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    contactId: str
    kind: Literal["call", "meeting", "email", "other"]
    summary: str
    """
    What was said and agreed
    """
    occurredAt: Optional[str] = None
    followUpOn: Optional[str] = None
    """
    Day on which to get back to the customer
    """


from . import CLIENT


def run(params: Params) -> str:
    """Note a phone call, visit or other conversation on a customer's record."""
    return CLIENT.run_sync(
        tool_name="log_interaction", tool_args=params.model_dump(exclude_none=True)
    )
