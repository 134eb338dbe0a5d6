"""MCP servers: reading them from a configuration file, and connecting to them.

- **Reading**: `read_servers` returns a `ServerEntry` for each server in the file of any client;
  nothing is expanded yet.
- **Expanding**: `ServerEntry.parameters` inserts the values of variables, and returns
  `StdioParameters` or `HttpParameters`.
- **Secrets**: a `Redactor` redacts values that must not be shown in any text.
- **Connecting**: `connected` connects to a server and provides a client of the `mcp` library.
"""

from toolimport.connect._client import StderrTail, connected
from toolimport.connect._explaining import explain, is_closed
from toolimport.connect._jsonc import parse_json
from toolimport.connect._parameters import HttpParameters, Parameters, StdioParameters
from toolimport.connect._secrets import Redactor, secrets_in
from toolimport.connect._servers import ServerEntry, full_path, read_servers, servers_in

__all__ = [
    "HttpParameters",
    "Parameters",
    "Redactor",
    "ServerEntry",
    "StderrTail",
    "StdioParameters",
    "connected",
    "explain",
    "full_path",
    "is_closed",
    "parse_json",
    "read_servers",
    "secrets_in",
    "servers_in",
]
