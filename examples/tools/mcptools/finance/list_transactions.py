from __future__ import annotations

from typing import Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    accountId: Optional[str] = None
    after: Optional[str] = None
    before: Optional[str] = None
    category: Optional[str] = None
    """
    Spending category, such as "groceries"
    """
    minAmount: Optional[float] = None
    limit: Optional[int] = 100


from . import CLIENT


def run(params: Params) -> str:
    """List bank account and card movements, with merchant, amount and spending category."""
    return CLIENT.run_sync(
        tool_name="list_transactions", tool_args=params.model_dump(exclude_none=True)
    )
