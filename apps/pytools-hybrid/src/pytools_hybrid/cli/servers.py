"""`pytools-hybrid import` and `setup`: MCP servers as tools, and our server in their clients."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pytools_hybrid import terminal
from pytools_hybrid.cli import app
from pytools_hybrid.errors import SettingsError, refusal
from pytools_hybrid.files import own_folder
from pytools_hybrid.installation import install_command
from pytools_hybrid.terminal import say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toolimport import ImportOptions, ServerReport, ToolImportError
    from toolimport.clients import Client, ServersFile

    from pytools_hybrid.settings import Settings

_SHOWN = 10
# A server that does not exit is terminated after two seconds, and killed after another two.
_GRACE_SECONDS = 6.0


@app.command(
    "import",
    settings="root database",
    epilog="""Examples:

\b
  $ pytools-hybrid import ~/.cursor/mcp.json
  $ pytools-hybrid import .vscode/mcp.json --only github --exclude 'delete_*'
  $ pytools-hybrid import servers.json --root tools --prune

Afterwards, with the root on PYTHONPATH:

\b
  from mcptools.time.get_current_time import Params, run
  app.run(Params(timezone="Europe/Vienna"))

The modules contain no secrets: they read the connection from FILE when they are called.
Variables that the file refers to must be set then too; for VS Code's ${input:api-key}, set
PYTOOLS_INPUT_API_KEY. Patterns are of names or ids, such as 'read_*' or 'mcptools:github:*'; tools
that were imported before and do not match are removed. Loading the generator, once, may take a
minute on top of --timeout. --runtime mcpygen is for freeact's tool server.""",
)
def import_(
    flags: app.Flags,
    servers: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="An MCP client's file: JSON, TOML or YAML."),
    ],
    *,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this server; repeatable.")
    ] = None,
    include: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Only these tools; repeatable.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Not these tools; repeatable.")
    ] = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove tools of servers that the file lacks.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite edited files, and those of other files.")
    ] = False,
    runtime: Annotated[
        Literal["pytools", "mcpygen"], typer.Option(help="What the modules call servers with.")
    ] = "pytools",
    timeout: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="Time limit for each server.")
    ] = 60.0,
    output: app.Output = "text",
) -> None:
    """Each server gets a folder mcptools/<server>, with a module for each of its tools.

    It is in the first --root, by default tools. Unchanged files are not rewritten; a server that
    fails does not stop the others. The index is updated.
    """
    from toolimport import ImportOptions

    from pytools_hybrid.settings import DEFAULT_ROOT, is_folder

    settings = app.settings_from(**flags)
    into = settings.root[0] if settings.root else DEFAULT_ROOT
    if "mcptools" not in settings.layouts:
        say("searches cannot find imported tools: add mcptools to layouts (PYTOOLS_LAYOUTS)")
    is_folder(into)
    options = ImportOptions(
        only=tuple(only or ()),
        include=tuple(include or ()),
        exclude=tuple(exclude or ()),
        runtime=runtime,
        seconds=timeout,
        prune=prune,
        force=force,
    )
    job = _import_into(servers, into, settings, options, as_json=output == "json")
    reports, is_indexed = app.run(job, grace=_GRACE_SECONDS)
    if not reports:
        say(f"{servers} names no servers")
    if not reports or not is_indexed or not all(report.is_fine for report in reports):
        raise typer.Exit(1)


async def _import_into(
    file: Path, into: Path, settings: Settings, options: ImportOptions, *, as_json: bool
) -> tuple[tuple[ServerReport, ...], bool]:
    """Import the servers and report what was done; also return whether the index is complete."""
    from toolimport import ToolImportError, import_servers

    from pytools_hybrid.search import ToolSearch

    started = time.perf_counter()
    stages: dict[str, str] = {}
    async with ToolSearch(settings.root or (into,), settings, refresh=False) as tools:
        with terminal.spinner(f"reading {file}") as show:

            def stage(server: str, what: str) -> None:
                stages[server] = what
                show(", ".join(f"{name}: {it}" for name, it in stages.items()))

            async def done(report: ServerReport) -> None:
                if report.added or report.changed or report.removed:
                    # Searches then find the server's tools before the other servers are done.
                    await tools.index.update()
                stages.pop(report.server, None)
                line = f"{report.server}: {_summary(report)}"
                (say if as_json else terminal.print_lines)(line)

            try:
                reports = await import_servers(
                    file, into, options, on_stage=stage, on_done=done, problem_of=_problem_of
                )
            except ToolImportError as error:
                raise _setting_error(error) from None
            if options.runtime == "pytools":
                _trust(file, into)
            index_error = (await tools.index.update()).error
        if as_json:
            terminal.print_json(
                {
                    "root": str(into),
                    "index": tools.index.store.where,
                    "index_error": str(index_error) if index_error else None,
                    "servers": [report.as_json() for report in reports],
                }
            )
        _say_details(reports, options)
        seconds = time.perf_counter() - started
        there = sum(report.tools for report in reports)
        failed = sum(bool(report.error) for report in reports)
        of = terminal.counted(len(reports) - failed, "server") + (
            f" ({failed} failed)" if failed else ""
        )
        say(f"{terminal.counted(there, 'tool')} of {of} in {into} ({seconds:.1f} s)")
        if index_error is not None:
            say(f"the index is not up to date: {index_error}; run pytools-hybrid index")
    return reports, index_error is None


def _setting_error(error: ToolImportError) -> SettingsError:
    """Return the error for the option that an error of an import is about."""
    if error.subject == "generate":
        extra = install_command("pytools-hybrid[import]")
        return SettingsError("import", f"needs the extra 'import': {extra}")
    is_option = error.subject in ("only", "root")
    return SettingsError(f"--{error.subject}" if is_option else error.subject, error.reason)


def _trust(file: Path, into: Path) -> None:
    from pytools_hybrid.serve.calls import trust

    try:
        trust(file, into)
    except OSError as error:
        say(f"serve --profile call will not start these servers: {refusal(error)}")


def _problem_of(source: str) -> str:
    """Return why a module is not a tool, or an empty string."""
    from tempfile import TemporaryDirectory

    from toolscan import ToolScanError, read_tool

    try:
        with TemporaryDirectory() as folder:
            path = Path(folder, "mcptools", "category", "tool.py")
            path.parent.mkdir(parents=True)
            path.write_text(source, encoding="utf-8", newline="\n")
            read_tool(path, root=folder)
    except ToolScanError as error:
        return error.issue.detail if error.issue else str(error)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _summary(report: ServerReport) -> str:
    """Describe the result of a server on one line."""
    tools, result = terminal.counted(report.tools, "tool"), _result(report)
    match report.status:
        case "imported" | "updated":
            return f"{tools} ({result})" if result else tools
        case "unchanged":
            return f"{tools}, {result}"
        case _:
            return result


def _result(report: ServerReport) -> str:
    match report.status:
        case "failed":
            return f"failed: {report.error}"
        case "disabled":
            return "disabled in the file" + (", and removed" if report.removed else "")
        case "skipped":
            return f"left alone: {'; '.join(report.warnings)}"
        case "gone":
            return (
                f"no longer in the file; --prune removes {terminal.counted(report.tools, 'tool')}"
            )
        case "removed" if report.kept:
            return f"no longer in the file; {len(report.kept)} edited and not changed"
        case "removed":
            return "no longer in the file, and removed"
        case "unchanged":
            return "unchanged"
        case "imported" | "updated":
            pass
    counts = (
        (report.added, "new"),
        (report.changed, "changed"),
        (report.removed, "removed"),
        (report.kept, "edited and not changed"),
        (report.failed, "left out"),
    )
    return ", ".join(f"{len(it)} {what}" for it, what in counts if it)


def _say_details(reports: tuple[ServerReport, ...], options: ImportOptions) -> None:
    for report in reports:
        lines: list[str] = []
        for what, texts in (("was left out", report.failed), ("is simplified", report.notes)):
            listed = [f"{tool} {what}: {text}" for tool, text in texts.items()]
            lines += terminal.first(listed, _SHOWN)
        if report.switched_off:
            lines.append(f"switched off in the file: {', '.join(report.switched_off)}")
        lines += report.warnings if report.status != "skipped" else ()
        lines += [
            f"{name} was edited and is not changed; --force overwrites it" for name in report.kept
        ]
        for line in lines:
            say(f"  {report.server}: {line}")
    if needed := sorted({name for report in reports for name in report.variables}):
        say(f"set these for mcpygen's tool server: {', '.join(needed)}")
    if options.include and not any(report.tools for report in reports):
        say(f"no tool matches --include {' '.join(options.include)}")


@app.command(
    "setup",
    settings="root",
    epilog="""Examples:

\b
  $ pytools-hybrid setup
  $ pytools-hybrid setup cursor claude-code --yes
  $ pytools-hybrid setup --print
  $ pytools-hybrid setup --undo

Clients are claude-code, claude-desktop, cursor, vscode and freeact (in the current folder); without
any, those that are installed.
The servers of a client are copied into our file, and imported. In the client's file, the
imported servers are moved to a key that the client ignores, and our server takes their place.
The other servers stay. A copy of the original file is kept beside it, as NAME.before-pytools.""",
)
def setup(
    flags: app.Flags,
    clients: Annotated[
        list[str] | None,
        typer.Argument(metavar="CLIENT", show_default=False, help="Clients, see below."),
    ] = None,
    *,
    yes: app.Yes = False,
    servers: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where servers are copied to. [default: ~/.config/pytools-hybrid/servers.json]",
        ),
    ] = None,
    print_: Annotated[
        bool, typer.Option("--print", help="Print the entry for any other client, and exit.")
    ] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Restore the clients' original files.")
    ] = False,
) -> None:
    """The clients then find their tools through pytools-hybrid.

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
        named = flags["root"] or app.settings_from().root
        roots = [it.absolute() for it in named or (file.parent / "tools",)]
        entry = own_entry(roots, {}, destructive_tools(roots))
        terminal.print_json({"mcpServers": {"pytools": entry}})
        return
    settings = app.settings_from(**flags)
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
        imported = _imported_names(names, file, roots[0], settings)
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
    chosen = tuple(it for it in known if (it.name in names if names else it.is_installed))
    problem = ""
    if unknown := [it for it in names if it not in {client.name for client in known}]:
        problem = f"{unknown[0]!r} is not one of {listed}; --print prints the entry for it"
    elif missing := [it for it in chosen if not it.is_installed]:
        problem = (
            f"{missing[0].title} is not installed: there is no {missing[0].trace}; start it once, "
            "or print the entry with --print"
        )
    elif not chosen:
        problem = f"none of {listed} is installed; --print prints the entry"
    if problem:
        raise SettingsError("CLIENT", problem)
    return chosen


def _is_agreed(ours: ServersFile, *, yes: bool) -> bool:
    """Show what is going to change, and ask for confirmation."""
    is_any = False
    for change in ours.changes:
        diff = change.diff()
        terminal.print_lines(diff)
        if not diff:
            say(f"{change.client.title}: nothing to change in {change.client.file}")
        for name, reason in change.staying.items():
            say(f"{change.client.title}: {name} is not moved: {reason}")
        for name, own in change.same.items():
            say(f"{change.client.title}: {name} is the same server as {own}; it is imported once")
        is_any |= bool(diff)
    if any(change.names for change in ours.changes):
        say(
            "after the import, the entry also gets --confirm for each tool that its server "
            "annotates as destructive"
        )
    if not is_any or yes:
        return is_any
    if not sys.stdin.isatty():
        say("nothing was changed; --yes makes these changes without asking")
        raise typer.Exit(1)
    return typer.confirm("Make these changes?", err=True)


def _imported_names(names: set[str], file: Path, into: Path, settings: Settings) -> set[str]:
    """Import servers by name, and return those that now have tools."""
    from toolimport import ImportOptions
    from toolimport.clients import ServersFile

    if dropped := names - ServersFile(file).names:
        listed = ", ".join(sorted(dropped))
        say(f"another setup has removed {listed} from {file}, because it could not be imported")
    names = names - dropped
    if not names:
        return set()
    options = ImportOptions(only=tuple(sorted(names)))
    job = _import_into(file, into, settings, options, as_json=False)
    reports, _ = app.run(job, grace=_GRACE_SECONDS)
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
