"""Calling the tools that a search has found, for clients that run no code of their own.

A tool that was imported from an MCP server is called on that server, if it was this user who has
imported it. No Python of the tree is run.
"""

from pytools_hybrid.calls._caller import CallableTool, ToolCaller
from pytools_hybrid.calls._forms import compact_form
from pytools_hybrid.calls._trust import is_trusted, trust

__all__ = ["CallableTool", "ToolCaller", "compact_form", "is_trusted", "trust"]
