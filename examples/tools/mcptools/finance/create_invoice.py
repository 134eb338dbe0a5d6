from __future__ import annotations

from typing import List, Optional

from pydantic import BaseModel, ConfigDict, Field


class LineItem(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    description: str
    quantity: float
    unitPrice: float
    taxPercent: Optional[float] = 0


class Customer(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    name: str
    email: str
    taxId: Optional[str] = None


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    customer: Customer
    items: List[LineItem] = Field(..., min_length=1)
    currency: str
    dueDate: str
    notes: Optional[str] = None
    send: Optional[bool] = None
    """
    Email it to the customer (default: keep it as a draft)
    """


from . import CLIENT


def run(params: Params) -> str:
    """Bill a customer: number a new invoice, compute totals and taxes, and render it as a PDF."""
    return CLIENT.run_sync(
        tool_name="create_invoice", tool_args=params.model_dump(exclude_none=True)
    )
