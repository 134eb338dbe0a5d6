from __future__ import annotations

from pydantic import BaseModel, Field


class YearEnd(BaseModel):
    """Balance at the end of one year."""

    year: int = Field(..., title="Year, counted from 1")
    balance: float = Field(..., title="Balance")
    interest_earned: float = Field(..., title="Interest of this year")


class Growth(BaseModel):
    """How savings grow."""

    final_balance: float = Field(..., title="Balance after the last year")
    total_deposited: float = Field(..., title="Starting sum and all deposits")
    total_interest: float = Field(..., title="Interest of all years")
    years: list[YearEnd] = Field(..., title="Balance year by year")


def run(
    principal: float,
    annual_rate_percent: float,
    years: int,
    monthly_deposit: float = 0.0,
) -> Growth:
    """Project how savings grow with interest that is credited every month.

    Taxes, fees and inflation are not considered. A deposit is made at the end of each month.

    Args:
        principal: Sum at the start
        annual_rate_percent: Nominal interest per year, in percent
        years: How long the money stays
        monthly_deposit: Amount saved in addition every month

    Returns:
        The final balance and a table by year
    """
    from .impl import project

    return project(principal, annual_rate_percent, years, monthly_deposit)
