"""MCP servers as Python tools: a module for each tool, and the runtime that these modules call.

::

    reports = await import_servers(Path("mcp.json"), Path("tools"), ImportOptions())

reads any client's configuration file, asks each server for its tools, and writes
`tools/mcptools/<server>/<tool>.py`. A generated module calls its server through
`toolimport.runtime`, and needs nothing else from this package.
"""

from toolimport._errors import ToolCallError as ToolCallError
from toolimport._errors import ToolImportError as ToolImportError
from toolimport._imports import ImportOptions as ImportOptions
from toolimport._imports import ServerReport as ServerReport
from toolimport._imports import import_servers as import_servers
