"""Serving the search: over MCP and over HTTP."""
