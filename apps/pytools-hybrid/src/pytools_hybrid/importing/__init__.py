"""Makes Python tools of MCP servers: `mcptools/<server>/<tool>.py`, one module for each tool.

`import_servers` reads a configuration file, asks each server for its tools, and writes their
modules, with a `ServerReport` for each. The modules call their servers through
`pytools_hybrid.runtime`.
"""

from pytools_hybrid.importing._importer import Stage, import_servers
from pytools_hybrid.importing._modules import Runtime
from pytools_hybrid.importing._options import ImportOptions
from pytools_hybrid.importing._report import ServerReport, Status

__all__ = ["ImportOptions", "Runtime", "ServerReport", "Stage", "Status", "import_servers"]
