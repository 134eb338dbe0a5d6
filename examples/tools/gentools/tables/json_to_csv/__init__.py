from .api import Conversion, run

__all__ = ["Conversion", "run"]
