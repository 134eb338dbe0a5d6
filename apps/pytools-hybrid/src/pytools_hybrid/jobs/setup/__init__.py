"""Setting up MCP clients: our server replaces theirs, and this can be undone.

- **Clients**: `known_clients` lists the clients and where each stores its servers.
- **Changing**: a `Change` is a planned change of one client's configuration, with a diff. Servers
  are copied to a `ServersFile`; once they are imported, the change is applied for them.
- **Undoing**: `Configuration.undo` restores a client's file.
"""

from pytools_hybrid.jobs.setup._change import Change
from pytools_hybrid.jobs.setup._clients import Client, known_clients
from pytools_hybrid.jobs.setup._configuration import Configuration, SetupError
from pytools_hybrid.jobs.setup._entry import NAME, destructive_tools, is_ours, own_entry
from pytools_hybrid.jobs.setup._servers import ServersFile

__all__ = [
    "NAME",
    "Change",
    "Client",
    "Configuration",
    "ServersFile",
    "SetupError",
    "destructive_tools",
    "is_ours",
    "known_clients",
    "own_entry",
]
