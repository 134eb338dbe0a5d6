"""The MCP server: one set of tools for agents, over stdio and streamable HTTP.

`create_server` makes the server of an open `ToolSearch`; `serve` runs it until the client goes or
a signal comes. The settings' `tools` choose the profile: `search` (search_tools, describe_tool,
report_outcome), `basic` (list_categories, list_tools), or `all`.
"""

from __future__ import annotations

from pytools_hybrid.serve.mcp._create import create_server
from pytools_hybrid.serve.mcp._lifecycle import serve
from pytools_hybrid.serve.mcp._server import ToolServer

__all__ = ["ToolServer", "create_server", "serve"]
