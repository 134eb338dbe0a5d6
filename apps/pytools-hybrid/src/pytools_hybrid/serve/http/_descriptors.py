"""The limit of open files, which limits the number of connections."""

from __future__ import annotations

import sys
from contextlib import suppress

MOST_CONNECTIONS = 1_000
NEW_AT_ONCE = 32
"""How many connections are accepted before any of them can be closed."""

_FEWEST = 16
# Room for the databases of running searches, watched folders and models.
_OTHER_FILES = 128
_WANTED = 2_048


def room_for_connections() -> int:
    """Raise this process's limit of open files if it is low, and return how many connections fit.

    Systems start a process with a limit of 256 or 1,024 files, which it may raise.
    """
    if sys.platform == "win32":
        return MOST_CONNECTIONS
    import resource

    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    wanted = _WANTED if most == resource.RLIM_INFINITY else min(_WANTED, most)
    if files < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
            files = wanted
    return max(_FEWEST, min(MOST_CONNECTIONS, files - _OTHER_FILES - NEW_AT_ONCE))
