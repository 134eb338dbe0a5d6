from __future__ import annotations

from pydantic import BaseModel, Field


class Expense(BaseModel):
    """Something that one person paid for several."""

    paid_by: str = Field(..., title="Who paid")
    amount: float = Field(..., title="How much")
    shared_by: list[str] = Field(..., title="Who took part, the payer included if so")


class Transfer(BaseModel):
    """A payment that settles part of the debt."""

    payer: str = Field(..., title="Who has to pay")
    receiver: str = Field(..., title="Who gets the money")
    amount: float = Field(..., title="How much")


def run(expenses: list[Expense]) -> list[Transfer]:
    """Settle the shared costs of a group: who owes whom how much, with few transfers.

    Works for trips, dinners and flat shares. Every expense is divided equally among those who took
    part; cents that do not divide go to the first of them.

    Args:
        expenses: What was paid, by whom and for whom, all in one currency

    Returns:
        Payments after which nobody owes anything
    """
    from .impl import settle

    return settle(expenses)
