"""Reports for commands and the console: what works on this machine, and how it is used."""
