"""The runtime under its old name, for modules that were imported when the application had it.

`pytools-hybrid import` writes `toolimport.runtime` in its place when it runs next.
"""

from toolimport.runtime import ToolCallError, ToolRunner, close

__all__ = ["ToolCallError", "ToolRunner", "close"]
