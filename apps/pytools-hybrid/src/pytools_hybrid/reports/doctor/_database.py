"""Checking the index: a file, or one on a server."""

from __future__ import annotations

import os
import shutil
from shlex import quote
from typing import TYPE_CHECKING

from pytools_hybrid.errors import SettingsError
from pytools_hybrid.installation import install_command
from pytools_hybrid.reports.doctor._finding import (
    Commands,
    Status,
    Verdict,
    failed,
    fine,
    warning,
)

if TYPE_CHECKING:
    from pathlib import Path

    from toolindex import ToolIndex

    from pytools_hybrid.settings import Roots, Settings

_FREE_BYTES = 200 << 20
_LEASE = "files"
_OTHER_PATH = "give another path with --db"


def look_at_database(
    database: Path, roots: Roots, commands: Commands, *, patience: float = 5.0
) -> Verdict:
    """Check the index, which is opened read-only.

    If another process is updating it, the check waits up to `patience` seconds.
    """
    from toolindex import (
        DamagedDatabaseError,
        DatabaseError,
        ForeignDatabaseError,
        ForeignRootError,
        NewerSchemaError,
        ToolIndex,
    )

    from pytools_hybrid.index import is_incumbent

    if not os.path.lexists(database):
        return _absent(database, commands)
    if is_incumbent(database):
        return warning(
            f"{database} is the index of freeact's own search; it will be renamed when ours is "
            "created",
            commands.index(),
        )
    try:
        with ToolIndex(database, read_only=True) as index:
            index.bind(name_of(roots))
            return _opened(index, database, commands, patience)
    except (ForeignDatabaseError, ForeignRootError) as error:
        return failed(str(error), _OTHER_PATH)
    except NewerSchemaError as error:
        return failed(str(error), install_command("pytools-hybrid", upgrade=True))
    except DamagedDatabaseError as error:
        return failed(
            f"{error} (indexing renames it, and rebuilds or restores it)", commands.index()
        )
    except DatabaseError as error:
        return failed(str(error), f"ls -l {quote(str(database))}")


def look_at_shared(settings: Settings, roots: Roots, commands: Commands) -> Verdict:
    """Check the server of a shared index, without changing anything on it."""
    try:
        server = settings.resolved_server(roots)
    except SettingsError as error:
        return failed(str(error))
    assert server is not None  # noqa: S101 - the caller has checked
    with server.database() as database:
        status, message, remedy = database.diagnose(server.tree)
    index = "" if settings.only_reads else commands.index()
    remedies = {
        "connect": f"psql {quote(server.shown)} -c 'SELECT 1'",
        "init": "pytools-hybrid database init",
        "upgrade": install_command("pytools-hybrid[postgres]", upgrade=True),
        "index": index or "run pytools-hybrid index on a host that has the tools",
        "repair": f"{index} --check"
        if index
        else "run pytools-hybrid index --check on a host that has the tools",
    }
    return Verdict(Status(status), message, remedies.get(remedy))


def name_of(roots: Roots) -> str:
    """Return the name that an index has for its trees."""
    return os.fsencode(roots.full_names).decode("utf-8", "backslashreplace")


def _absent(database: Path, commands: Commands) -> Verdict:
    # If a parent folder cannot be entered, os.path returns False, while pathlib raises.
    folder = next(it for it in database.absolute().parents if os.path.exists(it))  # noqa: PTH110
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        return failed(f"{database} does not exist, and {folder} cannot be written", _OTHER_PATH)
    if low := _lacks_space(folder):
        return failed(f"{database} does not exist yet, and {low}", "free some disk space")
    return warning(f"{database} does not exist yet", commands.index())


def _opened(index: ToolIndex, database: Path, commands: Commands, patience: float) -> Verdict:
    with index.reading() as reader:
        problem = reader.connection.execute("PRAGMA quick_check(1)").get
        if problem != "ok":
            return failed(f"{database} is damaged ({problem})", commands.index())
        if index.kept_problem:
            return failed(index.kept_problem, commands.index())
        tools = reader.coverage("").tools
        version = reader.connection.pragma("user_version")
        is_complete = reader.is_complete()
    size = database.stat().st_size / 1e6
    shown = f"{database}: {tools} tools, {size:.1f} MB, schema {version}, intact"
    if not is_complete:
        return warning(f"{shown}; not all files have been indexed yet", commands.index())
    if not _is_writable(database):
        return warning(
            f"{shown}; it cannot be written, so searches use it without updates",
            f"chmod u+w {quote(str(database))}",
        )
    if low := _lacks_space(database.parent):
        return warning(f"{shown}; {low}", "free some disk space")
    if not _is_free(index, database, patience):
        return warning(
            f"{shown}; another process has been updating it for {patience:g} s",
            "wait for that process, or stop it",
        )
    return fine(f"{shown}, can be written, free")


def _is_writable(database: Path) -> bool:
    # SQLite writes a log beside the file.
    return os.access(database, os.W_OK) and os.access(database.resolve().parent, os.W_OK)


def _is_free(index: ToolIndex, database: Path, patience: float) -> bool:
    """Return whether the update lease can be acquired within `patience` seconds."""
    # Without a lock file, no process has the lease; a check must not create one.
    if not database.with_name(f"{database.name}-{_LEASE}.lock").exists():
        return True
    lease = index.lease(_LEASE)
    if not lease.acquire(timeout=patience):
        return False
    lease.release()
    return True


def _lacks_space(folder: Path) -> str:
    free = shutil.disk_usage(folder).free
    return f"only {free / 1e6:.0f} MB of disk space are free" if free < _FREE_BYTES else ""
