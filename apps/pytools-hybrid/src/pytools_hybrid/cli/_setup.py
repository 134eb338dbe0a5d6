"""`pytools-hybrid setup`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pytools_hybrid.cli._app import app
from pytools_hybrid.cli._import import GRACE_SECONDS, import_into
from pytools_hybrid.cli._options import ImportRoot
from pytools_hybrid.cli._run import run, settings_from
from pytools_hybrid.errors import SettingsError
from pytools_hybrid.files import own_folder
from pytools_hybrid.terminal import print_lines, say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toolimport.clients import Client, ServersFile

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
    from toolimport import ToolImportError
    from toolimport.clients import ServersFile

    from pytools_hybrid.installation import destructive_tools, freeact_entry, own_entry
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
        typer.echo(json.dumps({"mcpServers": {"pytools": entry}}, indent=2))
        return
    settings = settings_from(root=root)
    roots = [it.absolute() for it in settings.root or (file.parent / "tools",)]
    chosen = _chosen(clients or [])
    is_folder(roots[0])

    def entry_of(env: Mapping[str, str]) -> dict[str, Any]:
        return own_entry(roots, env, destructive_tools(roots))

    ours, failed = ServersFile(file), False
    for client in chosen:
        try:
            ours.plan(client, entry_of if client.moves else freeact_entry, Path.home())
        except ToolImportError as error:
            failed = True
            say(f"{client.title}: {error}")
    if _is_agreed(ours, yes=yes):
        ours.save()
        names = {name for change in ours.changes for name in change.names.values()}
        imported = _imported(names, file, roots, settings)
        ours.drop(names - imported)
        failed |= not _made(ours, imported, destructive_tools(roots))
    if failed:
        raise typer.Exit(1)


def _chosen(names: Sequence[str]) -> tuple[Client, ...]:
    from toolimport.clients import Client

    known = Client.known(
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


def _is_agreed(ours: ServersFile, *, yes: bool) -> bool:
    """Show what is going to change, and ask for confirmation."""
    is_any = False
    for change in ours.changes:
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


def _made(ours: ServersFile, imported: set[str], asking: Sequence[str]) -> bool:
    """Apply the changes and report them; return whether they were complete."""
    from toolimport import ToolImportError

    is_complete = True
    for change in ours.changes:
        client = change.client
        try:
            is_changed = change.make(imported)
        except ToolImportError as error:
            is_complete = False
            say(f"{client.title}: {error}")
            continue
        left = [theirs for (_, theirs), name in change.names.items() if name not in imported]
        if left:
            is_complete = False
            say(f"{client.title}: {', '.join(left)} could not be imported, and stays in the client")
        if not is_changed:
            continue
        done = "now finds its tools through pytools-hybrid"
        if not client.moves:
            done = "now searches its tools through pytools-hybrid"
        elif not client.has_moved:
            done = "now starts pytools-hybrid, but none of its servers was imported"
        say(f"{client.title} {done}; {client.next_step}")
        if asking and client.moves:
            say(
                f"{client.title} asks you before calling {', '.join(asking)}, annotated as "
                "destructive by the server; if the client cannot ask, the call is refused"
            )
    return is_complete


def _undo(clients: Sequence[Client]) -> None:
    from toolimport import ToolImportError

    failed = False
    for client in clients:
        try:
            say(f"{client.file}: {client.undo()}")
        except ToolImportError as error:
            failed = True
            say(f"{client.title}: {error}")
    if failed:
        raise typer.Exit(1)
