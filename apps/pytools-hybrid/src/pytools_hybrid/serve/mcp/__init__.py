"""The MCP server: one set of tools for agents, over stdio and streamable HTTP.

`create_server` creates the server for an open `ToolSearch`; `serve` runs it until the client
disconnects or a signal arrives. The setting `tools` selects the profile: `search` (search_tools,
describe_tool, report_outcome), `call` (with call_tool), `basic` (list_categories, list_tools), or
`all`.
"""

from __future__ import annotations

from pytools_hybrid.serve.mcp._lifecycle import serve
from pytools_hybrid.serve.mcp._server import ToolServer, create_server

__all__ = ["ToolServer", "create_server", "serve"]
