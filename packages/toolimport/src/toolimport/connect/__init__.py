"""MCP servers of others: where a configuration file names them, and a connection to one.

- **Reading**: `read_servers` gives the `ServerEntry` of each server that a file names, whichever
  client the file was written for; nothing is expanded yet.
- **Expanding**: `ServerEntry.parameters` puts the values of variables in, and gives
  `StdioParameters` or `HttpParameters`.
- **Secrets**: a `Redactor` knows the values that must not be shown, and blackens them in any text.
- **Connecting**: `connected` opens a server and gives the client of the `mcp` library.
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
