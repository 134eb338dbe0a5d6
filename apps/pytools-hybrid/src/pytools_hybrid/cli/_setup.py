"""`pytools-hybrid setup`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pytools_hybrid.cli._app import app
from pytools_hybrid.cli._import import GRACE_SECONDS, import_into
from pytools_hybrid.cli._options import ImportRoot
from pytools_hybrid.cli._run import run, settings_from
from pytools_hybrid.errors import SettingsError
from pytools_hybrid.files import own_folder
from pytools_hybrid.terminal import print_lines, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytools_hybrid.jobs.setup import Change, Client
    from pytools_hybrid.settings import Settings


@app.command(
    epilog="""Examples:

\b
  $ pytools-hybrid setup
  $ pytools-hybrid setup cursor claude-code --yes
  $ pytools-hybrid setup --print
  $ pytools-hybrid setup --undo

The servers of a client are copied into our file, and imported. In the client's file, the
imported servers are moved to a key that the client ignores, and our server takes their place.
The other servers stay. A copy of the original file is kept beside it, as NAME.before-pytools."""
)
def setup(
    clients: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CLIENT",
            show_default=False,
            help="claude-code, claude-desktop, cursor, vscode or freeact (in the current folder); "
            "without any, those that are installed.",
        ),
    ] = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    servers: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where the servers are copied to. [default: "
            "~/.config/pytools-hybrid/servers.json]",
        ),
    ] = None,
    root: ImportRoot = None,
    print_: Annotated[
        bool, typer.Option("--print", help="Print the entry for any other client, and exit.")
    ] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Restore the clients' original files.")
    ] = False,
) -> None:
    """Let MCP clients find their tools through pytools-hybrid.

    Without --root, the tools are written to a folder beside the servers file.
    """
    from pytools_hybrid.jobs.setup import (
        NAME,
        Change,
        ServersFile,
        SetupError,
        destructive_tools,
        own_entry,
    )
    from pytools_hybrid.settings import is_folder

    if undo:
        # Before reading the settings, which may be broken.
        _undo(_chosen(clients or []))
        return
    file = Path(os.path.abspath((servers or own_folder() / "servers.json").expanduser()))  # noqa: PTH100
    if print_:
        named = root or settings_from().root
        roots = [it.absolute() for it in named or (file.parent / "tools",)]
        entry = own_entry(roots, {}, destructive_tools(roots))
        typer.echo(json.dumps({"mcpServers": {NAME: entry}}, indent=2))
        return
    settings = settings_from(root=root)
    roots = [it.absolute() for it in settings.root or (file.parent / "tools",)]
    chosen = _chosen(clients or [])
    is_folder(roots[0])
    ours, failed = ServersFile(file), False
    changes: list[Change] = []
    for client in chosen:
        try:
            changes.append(Change.planned(client, ours, roots, Path.home()))
        except SetupError as error:
            failed = True
            say(f"{client.title}: {error}")
    if _is_agreed(changes, yes=yes):
        ours.save()
        names = {name for change in changes for name in change.names.values()}
        imported = _imported(names, file, roots, settings)
        ours.drop(names - imported)
        for change in changes:
            failed |= not _made(change, imported)
    if failed:
        raise typer.Exit(1)


def _chosen(names: Sequence[str]) -> tuple[Client, ...]:
    from pytools_hybrid.jobs.setup import known_clients

    known = known_clients(
        system=sys.platform, environment=os.environ, home=Path.home(), folder=Path.cwd()
    )
    listed = ", ".join(it.name for it in known)
    if unknown := [it for it in names if it not in {client.name for client in known}]:
        raise SettingsError(
            "CLIENT", f"{unknown[0]!r} is not one of {listed}; --print prints the entry for it"
        )
    chosen = tuple(it for it in known if (it.name in names if names else it.is_installed))
    if missing := [it for it in chosen if not it.is_installed]:
        there = missing[0]
        raise SettingsError(
            "CLIENT",
            f"{there.title} is not installed: there is no {there.trace}; start it once, or print "
            "the entry with --print",
        )
    if not chosen:
        raise SettingsError("CLIENT", f"none of {listed} is installed; --print prints the entry")
    return chosen


def _is_agreed(changes: Sequence[Change], *, yes: bool) -> bool:
    """Show what is going to change, and ask for confirmation."""
    is_any = False
    for change in changes:
        diff = change.diff()
        print_lines(diff)
        if not diff:
            say(f"{change.client.title}: nothing to change in {change.client.file}")
        for name, reason in change.staying.items():
            say(f"{change.client.title}: {name} is not moved: {reason}")
        for name, own in change.same.items():
            say(f"{change.client.title}: {name} is the same server as {own}; it is imported once")
        is_any |= bool(diff)
    if not is_any or yes:
        return is_any
    if not sys.stdin.isatty():
        say("nothing was changed; --yes makes these changes without asking")
        raise typer.Exit(1)
    return typer.confirm("Make these changes?", err=True)


def _imported(names: set[str], file: Path, roots: Sequence[Path], settings: Settings) -> set[str]:
    """Import servers by name, and return those that now have tools."""
    from toolimport import ImportOptions

    if not names:
        return set()
    options = ImportOptions(only=tuple(sorted(names)))
    job = import_into(file, roots[0], settings, options, as_json=False)
    reports, _ = run(job, grace=GRACE_SECONDS)
    return {report.server for report in reports if not report.error and report.tools}


def _made(change: Change, imported: set[str]) -> bool:
    """Apply a change and report it; return whether it was complete."""
    from pytools_hybrid.jobs.setup import Configuration, SetupError, destructive_tools

    client = change.client
    try:
        is_changed = change.make(imported)
    except SetupError as error:
        say(f"{client.title}: {error}")
        return False
    left = [theirs for (_, theirs), name in change.names.items() if name not in imported]
    if left:
        say(f"{client.title}: {', '.join(left)} could not be imported, and stays in the client")
    if not is_changed:
        return not left
    if not client.moves:
        say(f"{client.title} now searches its tools through pytools-hybrid; {client.next_step}")
    elif Configuration.read(client).has_moved:
        say(f"{client.title} now finds its tools through pytools-hybrid; {client.next_step}")
    else:
        say(
            f"{client.title} now starts pytools-hybrid, but none of its servers was imported; "
            f"{client.next_step}"
        )
    if asking := destructive_tools(change.roots) if client.moves else ():
        say(
            f"{client.title} asks you before calling {', '.join(asking)}, annotated as destructive "
            "by the server; if the client cannot ask, the call is refused"
        )
    return not left


def _undo(clients: Sequence[Client]) -> None:
    from pytools_hybrid.jobs.setup import Configuration, SetupError

    failed = False
    for client in clients:
        try:
            say(f"{client.file}: {Configuration.read(client).undo()}")
        except SetupError as error:
            failed = True
            say(f"{client.title}: {error}")
    if failed:
        raise typer.Exit(1)
