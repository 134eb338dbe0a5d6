from .api import Difference, run

__all__ = ["Difference", "run"]
