"""`pytools-hybrid report` and `export`: the usage record."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pytools_hybrid.cli._options import Database, Root
from pytools_hybrid.cli._run import say_tree, settings_from
from pytools_hybrid.cli.app import app
from pytools_hybrid.errors import PytoolsError
from pytools_hybrid.terminal import is_terminal, print_json, print_lines, say

if TYPE_CHECKING:
    from toolindex import OutcomeRecord, SearchRecord

    from pytools_hybrid.settings import Settings

_DAY = 86_400.0

Since = Annotated[
    float | None,
    typer.Option(
        "--since",
        min=0,
        metavar="DAYS",
        help="Only the last DAYS days; 1 is the last 24 hours. [default: everything recorded, "
        "at most 90 days]",
    ),
]


@app.command(
    epilog="""Examples:

\b
  $ pytools-hybrid report
  $ pytools-hybrid report --since 7 --output json

A search counts as having an outcome if one was reported with its search id, as agents do
with report_outcome. The record is stored beside the index, on this machine; for an index on a
server, it is sent there, and covers all hosts.
PYTOOLS_USAGE_LOG=false turns it off and deletes it."""
)
def report(
    *,
    root: Root = None,
    db: Database = None,
    since: Since = None,
    output: Annotated[
        Literal["text", "json", "csv"],
        typer.Option(help="For people, for programs, or the figures of each day as a table."),
    ] = "text",
) -> None:
    """Summarize the recorded searches: their number, outcomes and latency."""
    from pytools_hybrid.reports import usage

    settings = settings_from(root=root, database=db)
    figures = usage.usage_report(*usage_records(settings, since))
    if output == "json":
        print_json(usage.as_json(figures))
    elif output == "csv":
        _print_file(usage.days_as_csv(figures))
    elif not figures.is_empty:
        print_lines(usage.as_text(figures))
    if figures.is_empty:
        _say_nothing(settings, since)
        raise typer.Exit(1)


@app.command(
    epilog="""Examples:

\b
  $ pytools-hybrid export > searches.csv
  $ pytools-hybrid export --what outcomes --since 30 --output json

Queries are written unchanged: import such columns into a spreadsheet as text."""
)
def export(
    *,
    root: Root = None,
    db: Database = None,
    since: Since = None,
    what: Annotated[
        Literal["searches", "outcomes"],
        typer.Option(help="The searches, or the outcomes of using tools."),
    ] = "searches",
    output: Annotated[Literal["csv", "json"], typer.Option(help="The output format.")] = "csv",
) -> None:
    """Write out the usage record, one search or outcome per row, oldest first."""
    from toolindex import OutcomeRecord, SearchRecord

    from pytools_hybrid.reports import usage

    settings = settings_from(root=root, database=db)
    searches, outcomes = usage_records(settings, since)
    table = (
        usage.records_table(SearchRecord, searches)
        if what == "searches"
        else usage.records_table(OutcomeRecord, outcomes)
    )
    _print_file(usage.table_as_json(table) if output == "json" else usage.table_as_csv(table))
    if not table.rows:
        _say_nothing(settings, since, what=what)
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

            say_tree(settings, roots)
            # This includes other hosts' searches and outcomes, from the server.
            with closing(open_store(roots, settings)) as store:
                return store.usage.searches(since=start), store.usage.outcomes(since=start)
        database = settings.resolved_database(roots)
    if not database.exists():
        raise PytoolsError(
            f"{database} does not exist, so no search has used it yet. Use the same --root or --db "
            "as for your searches"
        )
    with ToolIndex(database, read_only=True) as index:
        return index.usage.searches(since=start), index.usage.outcomes(since=start)


def _say_nothing(settings: Settings, since: float | None, *, what: str = "searches") -> None:
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
    if is_terminal():
        print_lines(text)
        return
    sys.stdout.flush()
    # Redirected output is UTF-8, whatever the locale's encoding is.
    typer.echo(text.encode("utf-8"), nl=False)
