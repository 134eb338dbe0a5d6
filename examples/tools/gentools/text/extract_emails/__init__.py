from .api import FoundAddress, run

__all__ = ["FoundAddress", "run"]
