"""Generating Python tools from MCP servers: `mcptools/<server>/<tool>.py` for each tool."""
