from .api import StaleIssue, run

__all__ = ["StaleIssue", "run"]
