from .api import MergeReport, run

__all__ = ["MergeReport", "run"]
