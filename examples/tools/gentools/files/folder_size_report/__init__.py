from .api import FolderSize, run

__all__ = ["FolderSize", "run"]
