from .api import DuplicateGroup, run

__all__ = ["DuplicateGroup", "run"]
