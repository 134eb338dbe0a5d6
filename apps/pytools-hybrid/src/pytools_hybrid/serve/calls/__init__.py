"""Calling the tools that a search has found, for clients that cannot run code.

A tool that was imported from an MCP server is called on that server, if this user imported it.
Other Python tools only run if that is allowed, in a separate process.
"""

from pytools_hybrid.serve.calls._caller import CallableTool, ToolCaller
from pytools_hybrid.serve.calls._forms import CALLABLE_FIELDS, callable_results, compact_form
from pytools_hybrid.serve.calls._process import end_processes
from pytools_hybrid.serve.calls._received import PROTOCOL
from pytools_hybrid.serve.calls._trust import trust

__all__ = [
    "CALLABLE_FIELDS",
    "PROTOCOL",
    "CallableTool",
    "ToolCaller",
    "callable_results",
    "compact_form",
    "end_processes",
    "trust",
]
