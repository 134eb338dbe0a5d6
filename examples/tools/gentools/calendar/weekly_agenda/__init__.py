from .api import AgendaDay, run

__all__ = ["AgendaDay", "run"]
