from __future__ import annotations

from .api import Growth, YearEnd


def project(
    principal: float, annual_rate_percent: float, years: int, monthly_deposit: float
) -> Growth:
    """Compound month by month, and round only what is reported."""
    monthly_rate = annual_rate_percent / 100 / 12
    balance = principal
    total_interest = 0.0
    table = []
    for year in range(1, years + 1):
        earned = 0.0
        for _ in range(12):
            interest = balance * monthly_rate
            earned += interest
            balance += interest + monthly_deposit
        total_interest += earned
        table.append(
            YearEnd(year=year, balance=round(balance, 2), interest_earned=round(earned, 2))
        )
    return Growth(
        final_balance=round(balance, 2),
        total_deposited=round(principal + monthly_deposit * 12 * years, 2),
        total_interest=round(total_interest, 2),
        years=table,
    )
