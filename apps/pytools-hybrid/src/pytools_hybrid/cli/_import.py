"""`pytools-hybrid import`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

import typer

from pytools_hybrid.cli._app import app
from pytools_hybrid.cli._options import Database, ImportRoot, Model, Output
from pytools_hybrid.cli._run import run, settings_from
from pytools_hybrid.errors import SettingsError, refusal
from pytools_hybrid.installation import install_command
from pytools_hybrid.terminal import (
    counted,
    is_terminal,
    print_json,
    print_lines,
    print_rich,
    printable,
    say,
    shows_progress,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rich.progress import Progress, TaskID
    from toolimport import ImportOptions, ServerReport

    from pytools_hybrid.settings import Settings

_SHOWN = 10
# A server that does not exit is terminated after two seconds, and killed after another two.
GRACE_SECONDS = 6.0


@app.command(
    "import",
    epilog="""Examples:

\b
  $ pytools-hybrid import ~/.cursor/mcp.json
  $ pytools-hybrid import .vscode/mcp.json --only github --exclude 'delete_*'
  $ pytools-hybrid import servers.json --root tools --prune

Afterwards, with the root on PYTHONPATH:

\b
  from mcptools.time.get_current_time import Params, run
  run(Params(timezone="Europe/Vienna"))

The modules contain no secrets: they read the connection from FILE when they are called.
Variables that the file refers to must be set then too; for VS Code's ${input:api-key}, set
PYTOOLS_INPUT_API_KEY.""",
)
def import_(
    servers: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="An MCP client's configuration file: JSON, TOML or YAML.",
        ),
    ],
    *,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this server; can be repeated."),
    ] = None,
    root: ImportRoot = None,
    db: Database = None,
    embedding_model: Model = None,
    include: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Import only tools whose name or id matches, such as 'read_*' or "
            "'mcptools:github:*'; can be repeated. Other tools imported before are removed.",
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN", help=("Exclude tools whose name or id matches, such as '*delete*'.")
        ),
    ] = None,
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Remove the tools of servers that are no longer in the file."),
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Also overwrite files that were edited or not generated from this file."
        ),
    ] = False,
    runtime: Annotated[
        Literal["pytools", "mcpygen"],
        typer.Option(
            help="What the modules use to call servers: our own runtime, or mcpygen's tool "
            "server, as in freeact."
        ),
    ] = "pytools",
    timeout: Annotated[
        float,
        typer.Option(
            min=0.1,
            metavar="SECONDS",
            help="Time limit for listing and generating a server's tools, not including up to one "
            "minute for loading the generator once.",
        ),
    ] = 60.0,
    output: Output = "text",
) -> None:
    """Generate Python tools from MCP servers, and index them.

    Each server gets a folder mcptools/<server>, with a module for each of its tools. Unchanged
    files are not rewritten; a server that fails does not stop the others.
    """
    from toolimport import ImportOptions

    from pytools_hybrid.settings import DEFAULT_ROOT, is_folder

    settings = settings_from(root=root, database=db, embedding_model=embedding_model)
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
    job = import_into(servers, into, settings, options, as_json=output == "json")
    reports, is_indexed = run(job, grace=GRACE_SECONDS)
    if not reports:
        say(f"{servers} names no servers")
    if not reports or not is_indexed or not all(report.is_fine for report in reports):
        raise typer.Exit(1)


async def import_into(
    file: Path, into: Path, settings: Settings, options: ImportOptions, *, as_json: bool
) -> tuple[tuple[ServerReport, ...], bool]:
    """Import the servers and report what was done; also return whether the index is complete."""
    from pytools_hybrid.search import ToolSearch

    started = time.perf_counter()
    roots = settings.root or (into,)
    async with ToolSearch(roots, settings, refresh=False) as tools:
        with _Board(as_lines=not as_json and not is_terminal()) as board:

            async def done(report: ServerReport) -> None:
                if report.added or report.changed or report.removed:
                    # Searches then find the server's tools before the other servers are done.
                    await tools.index.update()
                board.done(report)

            reports = await _imported(file, into, options, on_stage=board.stage, on_done=done)
            if options.runtime == "pytools":
                _trust(file, into)
            index_error = (await tools.index.update()).error
        if as_json:
            print_json(
                {
                    "root": str(into),
                    "index": tools.index.store.where,
                    "index_error": str(index_error) if index_error else None,
                    "servers": [report.as_json() for report in reports],
                }
            )
        elif is_terminal():
            _print_table(reports)
        _tell(reports, options)
        seconds = time.perf_counter() - started
        there = sum(report.tools for report in reports)
        failed = sum(bool(report.error) for report in reports)
        of = counted(len(reports) - failed, "server") + (f" ({failed} failed)" if failed else "")
        say(f"{counted(there, 'tool')} of {of} in {into} ({seconds:.1f} s)")
        if index_error is not None:
            say(f"the index is not up to date: {index_error}; run pytools-hybrid index")
    return reports, index_error is None


async def _imported(
    file: Path,
    into: Path,
    options: ImportOptions,
    *,
    on_stage: Callable[[str, str], object],
    on_done: Callable[[ServerReport], Awaitable[object]],
) -> tuple[ServerReport, ...]:
    from toolimport import ToolImportError, import_servers

    try:
        return await import_servers(
            file, into, options, on_stage=on_stage, on_done=on_done, problem_of=_problem_of
        )
    except ToolImportError as error:
        if error.subject == "generate":
            command = install_command("pytools-hybrid[import]")
            raise SettingsError("import", f"needs the extra 'import': {command}") from None
        is_option = error.subject in ("only", "root")
        subject = f"--{error.subject}" if is_option else error.subject
        raise SettingsError(subject, error.reason) from None


def _trust(file: Path, into: Path) -> None:
    from pytools_hybrid.serve.calls import trust

    try:
        trust(file, into)
    except OSError as error:
        say(f"serve --tools call will not start these servers: {refusal(error)}")


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


class _Board:
    """Shows progress as one line per server, animated on a terminal."""

    def __init__(self, *, as_lines: bool) -> None:
        self._as_lines = as_lines
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:

        if shows_progress():
            from rich.console import Console
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            self._progress = Progress(
                SpinnerColumn(finished_text=" "),
                TextColumn("{task.fields[server]}", markup=False),
                TextColumn("{task.description}", style="dim", markup=False),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def stage(self, server: str, stage: str) -> None:
        """Show the progress of a server."""
        if self._progress is None:
            return
        if server not in self._tasks:
            self._tasks[server] = self._progress.add_task(stage, total=1, server=printable(server))
        self._progress.update(self._tasks[server], description=stage)

    def done(self, report: ServerReport) -> None:
        """Show the result of a server."""
        line = f"{printable(report.server)}: {_summary(report)}"
        if self._as_lines:
            print_lines(line)
        elif self._progress is None:
            say(line)
        elif report.server in self._tasks:
            self._progress.update(
                self._tasks[report.server], completed=1, description=printable(_summary(report))
            )


def _print_table(reports: tuple[ServerReport, ...]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("server", "tools", "what happened", "seconds", box=None, pad_edge=False)
    table.columns[1].justify = table.columns[3].justify = "right"
    styles = {
        "failed": "red",
        "unchanged": "dim",
        "disabled": "dim",
        "skipped": "dim",
        "gone": "yellow",
    }
    for report in reports:
        table.add_row(
            Text(printable(report.server), style="bold"),
            str(report.tools) if report.tools else "",
            Text(printable(_happened(report)), style=styles.get(report.status, "green")),
            f"{report.seconds:.1f}" if report.seconds else "",
        )
    print_rich([table])


def _summary(report: ServerReport) -> str:
    """Describe the result of a server on one line."""
    tools, happened = counted(report.tools, "tool"), _happened(report)
    match report.status:
        case "imported" | "updated":
            return f"{tools} ({happened})" if happened else tools
        case "unchanged":
            return f"{tools}, {happened}"
        case _:
            return happened


def _happened(report: ServerReport) -> str:
    match report.status:
        case "failed":
            return f"failed: {report.error}"
        case "disabled":
            return "disabled in the file" + (", and removed" if report.removed else "")
        case "skipped":
            return f"left alone: {'; '.join(report.warnings)}"
        case "gone":
            return f"no longer in the file; --prune removes {counted(report.tools, 'tool')}"
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


def _tell(reports: tuple[ServerReport, ...], options: ImportOptions) -> None:
    for report in reports:
        for what, texts in (("was left out", report.failed), ("is simplified", report.notes)):
            for number, (tool, text) in enumerate(texts.items()):
                if number < _SHOWN:
                    say(f"  {report.server}: {tool} {what}: {text}")
            if len(texts) > _SHOWN:
                say(f"  {report.server}: {len(texts) - _SHOWN} more; --output json has them all")
        if report.switched_off:
            say(f"  {report.server}: switched off in the file: {', '.join(report.switched_off)}")
        for warning in report.warnings if report.status != "skipped" else ():
            say(f"  {report.server}: {warning}")
        for name in report.kept:
            say(f"  {report.server}: {name} was edited and is not changed; --force overwrites it")
    if needed := sorted({name for report in reports for name in report.variables}):
        say(f"set these for mcpygen's tool server: {', '.join(needed)}")
    if options.include and not any(report.tools for report in reports):
        say(f"no tool matches --include {' '.join(options.include)}")
