from .api import Comparison, run

__all__ = ["Comparison", "run"]
