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
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pytools_hybrid.errors import SettingsError
from pytools_hybrid.index._sqlite_file import bound, open_sqlite
from pytools_hybrid.installation import install_command

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from toolindex import ToolStore
    from toolscan import ToolRecord

    from pytools_hybrid.settings import Roots, Settings

_log = logging.getLogger("pytools_hybrid")

_PACKAGE = "toolindex_postgres"
_EXTRA = "pytools-hybrid[postgres]"
_SHOWN = 3


class Freshness(Protocol):
    """How old the answers of a shared index are."""

    @property
    def as_of(self) -> float | None:
        """When the copy was last known to be up to date, in seconds since 1970, if ever."""
        ...

    @property
    def problem(self) -> str:
        """Why it is not known to be up to date now, or ""."""
        ...

    @property
    def waiting(self) -> int:
        """How many searches and outcomes of this host have not been sent to the server yet."""
        ...

    @property
    def left_out(self) -> Mapping[str, str]:
        """The reasons why rows of the server cannot be read, by display name."""
        ...


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
        SettingsError: A required package is not installed, or the tree is not named.
        DatabaseError: The server has no index, or one of a later version.
    """
    server = settings.resolved_server(roots)
    assert server is not None  # noqa: S101 - the caller has checked
    check_installed(settings)
    from toolindex_postgres import SharedStore

    only_reads = settings.only_reads
    file = _writable(settings.resolved_database(roots))
    copy = open_sqlite(file, settings.field_weights)
    try:
        store = SharedStore(copy, server.url, tree=server.tree, read_only=only_reads)
    except BaseException:
        copy.close()
        raise
    # If files are never scanned, the copy does not belong to a root.
    return bound(store, str(server) if only_reads else roots.full_names)


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


def check_installed(settings: Settings) -> None:
    """Check that the packages for a server are installed."""
    if find_spec(_PACKAGE) is None:
        raise SettingsError(
            settings.origins.get("database", "database"),
            f"{settings.server} needs the extra postgres: {install_command(_EXTRA)}",
        )


def answers_from_copy(store: ToolStore) -> bool:
    """Return whether this host's copy answers because the server cannot be reached."""
    freshness = _freshness(store)
    return freshness is not None and bool(freshness.problem)


def away_reason(store: ToolStore) -> str:
    """Return why the server of a shared index was unreachable at the last access, or ""."""
    freshness = _freshness(store)
    return "" if freshness is None else freshness.problem


def away_note(store: ToolStore) -> str:
    """Return the note of answers while the server cannot be reached, or an empty string."""
    freshness = _freshness(store)
    if freshness is None or not freshness.problem:
        return ""
    when = "from this host's copy, which is as old as the last contact with the server"
    if freshness.as_of is not None:
        when = f"as of {datetime.fromtimestamp(freshness.as_of, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return f"this answer is {when}: {freshness.problem}"


def unreadable_note(left_out: Mapping[str, str]) -> str:
    """Return a note on rows of a shared index that cannot be read, or an empty string."""
    if not left_out:
        return ""
    first = "; ".join(f"{name}: {left_out[name]}" for name in sorted(left_out)[:_SHOWN])
    more = "; …" if len(left_out) > _SHOWN else ""
    rows = "1 row" if len(left_out) == 1 else f"{len(left_out)} rows"
    return (
        f"left out {rows} of the shared index that cannot be read ({first}{more}); run "
        "pytools-hybrid index --check on a host that has the tools"
    )


def _freshness(store: ToolStore) -> Freshness | None:
    return store.freshness(asks=False) if isinstance(store, SharedIndex) else None
