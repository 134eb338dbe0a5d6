"""`pytools-hybrid report`: the usage record, summarized or exported."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pytools_hybrid import terminal
from pytools_hybrid.cli import app
from pytools_hybrid.errors import PytoolsError, SettingsError
from pytools_hybrid.terminal import say

if TYPE_CHECKING:
    from toolindex import OutcomeRecord, SearchRecord

    from pytools_hybrid.settings import Settings

_DAY = 86_400.0

Since = Annotated[
    float | None,
    typer.Option("--since", min=0, metavar="DAYS", help="Only the last days. [default: 90]"),
]


@app.command(
    "report",
    settings="root database",
    epilog="""Examples:

\b
  $ pytools-hybrid report
  $ pytools-hybrid report --since 7 --output json
  $ pytools-hybrid report --output csv                            figures of each day
  $ pytools-hybrid report --export searches > searches.csv

A search counts as having an outcome if one was reported with its search id, as agents do
with report_outcome. The record is stored beside the index, on this machine; for an index on a
server, it is sent there, and covers all hosts.
PYTOOLS_USAGE_LOG=false turns it off and deletes it.
An export has queries unchanged: import such columns into a spreadsheet as text.""",
)
def report(
    flags: app.Flags,
    *,
    since: Since = None,
    export: Annotated[
        Literal["searches", "outcomes"] | None,
        typer.Option(help="Write out these records, one per row, oldest first."),
    ] = None,
    output: Annotated[
        Literal["text", "json", "csv"] | None,
        typer.Option(help="Output format. [default: text; csv for --export]"),
    ] = None,
) -> None:
    """Print their number, outcomes and latency, and the tools that were used."""
    from toolindex import OutcomeRecord, SearchRecord

    from pytools_hybrid.reports import usage

    if export and output == "text":
        raise SettingsError("--output", "an export is csv or json")
    settings = app.settings_from(**flags)
    searches, outcomes = usage_records(settings, since)
    if export is not None:
        if export == "searches":
            table = usage.records_table(SearchRecord, searches)
        else:
            table = usage.records_table(OutcomeRecord, outcomes)
        _print_file(usage.table_as_json(table) if output == "json" else usage.table_as_csv(table))
        is_empty = not table.rows
    else:
        figures = usage.usage_report(searches, outcomes)
        is_empty = figures.is_empty
        if output == "json":
            terminal.print_json(usage.as_json(figures))
        elif output == "csv":
            _print_file(usage.days_as_csv(figures))
        elif not is_empty:
            terminal.print_lines(usage.as_text(figures))
    if is_empty:
        _say_nothing(settings, since, export or "searches")
        raise typer.Exit(1)


def usage_records(
    settings: Settings, since: float | None
) -> tuple[tuple[SearchRecord, ...], tuple[OutcomeRecord, ...]]:
    """Return the recorded searches and outcomes, without changing the index."""
    from toolindex import ToolIndex

    start = None if since is None else time.time() - since * _DAY
    database = settings.db_path
    if database is None:
        roots, note = settings.resolved_root()
        if note:
            say(note)
        if settings.server is not None:
            from pytools_hybrid.index import open_store

            app.say_tree(settings, roots)
            # This includes other hosts' searches and outcomes, from the server.
            with closing(open_store(roots, settings)) as store:
                return store.usage.searches(since=start), store.usage.outcomes(since=start)
        database = settings.resolved_database(roots)
    if not database.exists():
        raise PytoolsError(
            f"{database} does not exist, so no search has used it yet. Use the same --root or "
            "--database as for your searches"
        )
    with ToolIndex(database, read_only=True) as index:
        return index.usage.searches(since=start), index.usage.outcomes(since=start)


def _say_nothing(settings: Settings, since: float | None, what: str) -> None:
    if not settings.usage_log:
        say("nothing is recorded: PYTOOLS_USAGE_LOG is off")
    elif since is not None:
        say(f"no {what} are recorded for the last {since:g} days; try without --since")
    elif what == "outcomes":
        say("no outcomes are recorded yet; agents report them with report_outcome")
    else:
        say('no searches are recorded yet; try: pytools-hybrid search "…"')


def _print_file(text: str) -> None:
    """Print the content of a file, unchanged except on a terminal."""
    if terminal.is_terminal():
        terminal.print_lines(text)
        return
    sys.stdout.flush()
    # Redirected output is UTF-8, whatever the locale's encoding is.
    typer.echo(text.encode("utf-8"), nl=False)
