"""Connecting to MCP servers, whose messages may be slightly invalid."""
