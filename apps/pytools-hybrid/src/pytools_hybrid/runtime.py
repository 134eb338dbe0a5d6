"""The runtime under its old name, for modules generated when it was part of the application.

The next run of `pytools-hybrid import` replaces it with `toolimport.runtime`.
"""

from toolimport.runtime import ToolCallError, ToolRunner, close

__all__ = ["ToolCallError", "ToolRunner", "close"]
