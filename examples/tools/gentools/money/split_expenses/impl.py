from __future__ import annotations

from collections import defaultdict

from .api import Expense, Transfer


def settle(expenses: list[Expense]) -> list[Transfer]:
    """Let the largest debtor pay the largest creditor until all are even."""
    balances = balance_in_cents(expenses)
    transfers = []
    while any(balances.values()):
        payer = min(balances, key=lambda name: (balances[name], name))
        receiver = max(balances, key=lambda name: (balances[name], name))
        cents = min(-balances[payer], balances[receiver])
        balances[payer] += cents
        balances[receiver] -= cents
        transfers.append(Transfer(payer=payer, receiver=receiver, amount=cents / 100))
    return transfers


def balance_in_cents(expenses: list[Expense]) -> dict[str, int]:
    """Add up what everyone has paid, less what they have used."""
    balances: defaultdict[str, int] = defaultdict(int)
    for expense in expenses:
        if not expense.shared_by:
            raise ValueError(f"nobody shares the {expense.amount} that {expense.paid_by} paid")
        cents = round(expense.amount * 100)
        share, rest = divmod(cents, len(expense.shared_by))
        balances[expense.paid_by] += cents
        for position, person in enumerate(expense.shared_by):
            balances[person] -= share + (position < rest)
    return dict(balances)
