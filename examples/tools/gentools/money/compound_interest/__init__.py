from .api import Growth, YearEnd, run

__all__ = ["Growth", "YearEnd", "run"]
