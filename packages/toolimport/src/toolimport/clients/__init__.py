"""The configuration files of MCP clients: which there are, and setting up one of our own there.

`Client.known` lists the clients and where each stores its servers. A `ServersFile` plans to copy a
client's servers; once they are imported, our server replaces them in the client's file, with
comments and formatting kept. `Client.undo` restores the file.
"""

from toolimport.clients._files import Client as Client
from toolimport.clients._files import ServersFile as ServersFile
