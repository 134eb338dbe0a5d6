from .api import Expense, Transfer, run

__all__ = ["Expense", "Transfer", "run"]
