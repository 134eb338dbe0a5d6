"""Calling the tools that a search has found, for clients that run no code of their own.

A tool that was imported from an MCP server is called on that server. No Python of the tree is run.
"""

from pytools_hybrid.calls._caller import CallableTool, ToolCaller
from pytools_hybrid.calls._forms import compact_form

__all__ = ["CallableTool", "ToolCaller", "compact_form"]
