"""Opening an index shared by many hosts: a PostgreSQL database, and this host's copy of a tree.

All processes of a host that use the same tree share one copy: the first one that searches after a
change fetches it for all of them. Separate copies would be fetched and stored once for each
process, and a command that runs for a second would have no copy to search while the server is
unreachable.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pytools_hybrid.index._sqlite_file import bound, open_sqlite

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from toolindex import ToolStore
    from toolindex_postgres import Freshness
    from toolscan import ToolRecord

    from pytools_hybrid.settings import Roots, Settings

_log = logging.getLogger("pytools_hybrid")


@runtime_checkable
class SharedIndex(Protocol):
    """A store that hosts share, with methods in addition to those of `toolindex.ToolStore`."""

    def freshness(self, *, asks: bool = True) -> Freshness:
        """Return how old the copy is."""
        ...

    def records(self, ids: Collection[str]) -> Sequence[ToolRecord]:
        """Return the whole records of some tools, for hosts without their files."""
        ...


def open_shared(roots: Roots, settings: Settings) -> ToolStore:
    """Open the index of some trees on the server in the settings.

    While the server cannot be reached, this opens the last copy, or an empty one if this host has
    none. The trees need not exist if the index is only read.

    Raises:
        SettingsError: The tree is not named.
        DatabaseError: The server has no index, or one of a later version.
    """
    server = settings.resolved_server(roots)
    assert server is not None  # noqa: S101 - the caller has checked
    only_reads = settings.only_reads
    copy = open_sqlite(_writable(settings.resolved_database(roots)), settings.field_weights)
    store = server.open(copy, read_only=only_reads)
    # If files are never scanned, the copy does not belong to a root.
    return bound(store, str(server) if only_reads else roots.identity)


def _writable(database: Path) -> Path:
    """Return the path of the local file, in a temporary folder if its own cannot be written."""
    folder = database.parent
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    if os.access(folder, os.W_OK):
        return database
    own = Path(tempfile.mkdtemp(prefix="pytools-hybrid-"))
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    _log.warning("%s cannot be written: this process uses %s until it ends", folder, own)
    return own / database.name


def server_unreachable(store: ToolStore) -> str:
    """Return why the server of a shared index was unreachable at the last access, or ""."""
    return store.freshness(asks=False).problem if isinstance(store, SharedIndex) else ""
