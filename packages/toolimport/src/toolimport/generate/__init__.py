"""Generating Python tools from MCP servers: `mcptools/<server>/<tool>.py` for each tool.

`import_servers` reads a configuration file, asks each server for its tools, writes their modules,
and returns a `ServerReport` for each server. The modules call their servers through
`toolimport.runtime`.
"""

from toolimport.generate._importer import Stage, import_servers
from toolimport.generate._modules import Runtime
from toolimport.generate._options import ImportOptions
from toolimport.generate._report import ServerReport, Status

__all__ = ["ImportOptions", "Runtime", "ServerReport", "Stage", "Status", "import_servers"]
