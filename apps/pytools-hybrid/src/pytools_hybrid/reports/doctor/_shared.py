"""Checking the server of a shared index: whether it answers, and has this tree."""

from __future__ import annotations

import time
from shlex import quote
from typing import TYPE_CHECKING

from pytools_hybrid.errors import SettingsError
from pytools_hybrid.installation import install_command
from pytools_hybrid.reports.doctor._finding import Commands, Verdict, failed, fine, warning

if TYPE_CHECKING:
    from toolindex_postgres import DatabaseStatus

    from pytools_hybrid.settings import Roots, Server, Settings

_INIT = "pytools-hybrid database init"
_CHECK = "run pytools-hybrid index --check on a host that has the tools"
# Reading more tools takes longer than a minute.
_MOST_READ = 200_000


def look_at_shared(settings: Settings, roots: Roots, commands: Commands) -> Verdict:
    """Check the server, without changing anything on it."""
    from toolindex import DatabaseError

    from pytools_hybrid.index import check_installed, unreadable_note

    try:
        server = settings.resolved_server(roots)
        check_installed(settings)
    except SettingsError as error:
        return failed(str(error), install_command("pytools-hybrid[postgres]"))
    if server is None:
        return fine("the index is a file")
    from toolindex_postgres import Database

    started = time.perf_counter()
    try:
        with Database(server.url) as database:
            status = database.status()
            milliseconds = 1000 * (time.perf_counter() - started)
            tree = next((it for it in status.trees if it.name == server.tree), None)
            is_read = tree is not None and tree.entries <= _MOST_READ
            unreadable = unreadable_note(database.unreadable(server.tree) if is_read else {})
    except DatabaseError as error:
        return failed(str(error), f"psql {quote(server.shown)} -c 'SELECT 1'")
    command = "" if settings.only_reads else commands.index()
    if unreadable:
        return warning(unreadable, f"{command} --check" if command else _CHECK)
    return _judged(server, status, milliseconds, command)


def _judged(server: Server, status: DatabaseStatus, milliseconds: float, index: str) -> Verdict:
    shown = f"{server.shown}: PostgreSQL {status.server}, answers in {milliseconds:.0f} ms"
    if status.schema is None:
        return failed(f"{shown}; it has no index yet", _INIT)
    if status.schema < status.supported:
        older = f"{shown}; its schema {status.schema} is older than {status.supported}"
        return warning(older, _INIT)
    if status.schema > status.supported:
        upgrade = install_command("pytools-hybrid[postgres]", upgrade=True)
        return failed(f"{shown}; a later version made its schema {status.schema}", upgrade)
    tree = next((it for it in status.trees if it.name == server.tree), None)
    if tree is None:
        there = ", ".join(it.name for it in status.trees) or "none"
        remedy = index or "run pytools-hybrid index on a host that has the tools"
        return warning(f"{shown}; there is no tree {server.tree} (there are: {there})", remedy)
    vectors = ", ".join(f"{count} vectors of {model}" for model, count in tree.vectors.items())
    return fine(f"{shown}; tree {tree.name}: {tree.entries} tools, {vectors or 'no vectors'}")
