"""Making clients find their tools through us: their servers become ours, and can go back.

- **Clients**: `known_clients` lists where each keeps its servers.
- **Changing**: a `Change` is what is going to be done to one client's configuration, as a diff; it
  is made for the servers that were imported, after they were copied into a `ServersFile`.
- **Undoing**: `Configuration.undo` gives a client its file back.
"""

from pytools_hybrid.jobs.setup._change import Change
from pytools_hybrid.jobs.setup._clients import Client, known_clients
from pytools_hybrid.jobs.setup._configuration import Configuration, SetupError
from pytools_hybrid.jobs.setup._entry import NAME, own_entry
from pytools_hybrid.jobs.setup._servers import ServersFile

__all__ = [
    "NAME",
    "Change",
    "Client",
    "Configuration",
    "ServersFile",
    "SetupError",
    "known_clients",
    "own_entry",
]
