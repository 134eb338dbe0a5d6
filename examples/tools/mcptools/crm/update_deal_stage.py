from __future__ import annotations

from enum import Enum
from typing import Optional

from pydantic import BaseModel, ConfigDict


class Stage(Enum):
    lead = "lead"
    qualified = "qualified"
    proposal = "proposal"
    negotiation = "negotiation"
    won = "won"
    lost = "lost"


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    dealId: str
    stage: Stage
    lostReason: Optional[str] = None
    """
    Required when the stage is "lost"
    """
    expectedValue: Optional[float] = None


from . import CLIENT


def run(params: Params) -> str:
    """Move a sales opportunity along the pipeline, up to won or lost."""
    return CLIENT.run_sync(
        tool_name="update_deal_stage", tool_args=params.model_dump(exclude_none=True)
    )
