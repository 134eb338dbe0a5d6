from .api import PackingAdvice, run

__all__ = ["PackingAdvice", "run"]
