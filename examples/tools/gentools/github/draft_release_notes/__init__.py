from .api import ReleaseNotes, run

__all__ = ["ReleaseNotes", "run"]
