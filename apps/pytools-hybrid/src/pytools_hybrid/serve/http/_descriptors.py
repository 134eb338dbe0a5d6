"""How many connections there may be, so that files can still be opened beside them."""

from __future__ import annotations

import sys
from contextlib import suppress

MOST_CONNECTIONS = 1_000
NEW_AT_ONCE = 32
"""How many are accepted before any of them can be refused."""

_FEWEST = 16
# Databases of searches at work, watched folders, models.
_OTHER_FILES = 128
_WANTED = 2_048


def room_for_connections() -> int:
    """Raise this process's limit of open files where it is low, and tell what fits into it.

    Systems start a process with 256 or 1,024 files and let it have more.
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
