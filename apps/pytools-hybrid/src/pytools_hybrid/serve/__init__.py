"""Serving the search: over MCP and over HTTP."""

from pytools_hybrid.serve._browse import Categories, ToolBrowser, Tools
from pytools_hybrid.serve._results import answer_meta, tool_results

__all__ = ["Categories", "ToolBrowser", "Tools", "answer_meta", "tool_results"]
