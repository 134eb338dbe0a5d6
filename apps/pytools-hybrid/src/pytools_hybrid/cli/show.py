"""`pytools-hybrid list`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pytools_hybrid.cli._options import Database, Exclude, Include, Root
from pytools_hybrid.cli._run import current, existing_roots, run, settings_from
from pytools_hybrid.cli.app import app
from pytools_hybrid.terminal import (
    is_terminal,
    print_json,
    print_rich,
    printable,
    say,
)

if TYPE_CHECKING:
    from toolindex import ToolEntry

    from pytools_hybrid.search import CategoryCount
    from pytools_hybrid.settings import Roots


@app.command(
    "list",
    epilog="""Examples:

\b
  $ pytools-hybrid list
  $ pytools-hybrid list github pdf
  $ pytools-hybrid list github --output ids""",
)
def list_(
    categories: Annotated[
        list[str] | None,
        typer.Argument(metavar="CATEGORY", help="The categories whose tools to list."),
    ] = None,
    *,
    root: Root = None,
    db: Database = None,
    include: Include = None,
    exclude: Exclude = None,
    output: Annotated[
        Literal["table", "json", "ids"],
        typer.Option(help="For people, for programs, or the ids of the tools alone."),
    ] = "table",
) -> None:
    """List the categories with their tool counts, or the tools of some categories."""
    settings = settings_from(root=root, database=db, include=include, exclude=exclude)
    roots = existing_roots(settings)

    async def look() -> tuple[tuple[CategoryCount, ...], tuple[ToolEntry, ...], str]:
        from toolindex import ToolFilter

        from pytools_hybrid.search import check_categories, why_no_tools

        async with current(settings, roots) as tools:
            counts = await tools.categories()
            why = ""
            if not counts:
                hidden = (await tools.index.state()).coverage.tools
                why = why_no_tools(tools.index, hidden=hidden)
            if categories:
                check_categories(categories, {it.category for it in counts})
            if not categories and output != "ids":
                return counts, (), why
            return counts, await tools.entries(ToolFilter(categories=categories or ())), why

    counts, entries, why = run(look())
    if categories or output == "ids":
        _print_tools(entries, roots, output)
    else:
        _print_categories(counts, output)
    if why:
        say(why)
        raise typer.Exit(1)


def _print_categories(counts: tuple[CategoryCount, ...], output: str) -> None:
    if output == "json":
        print_json(
            [{"source": it.source, "category": it.category, "tools": it.tools} for it in counts]
        )
    elif is_terminal():
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        table.add_column("tools", justify="right")
        table.add_column("category")
        table.add_column("source", style="dim")
        for it in counts:
            table.add_row(str(it.tools), Text(printable(it.category), style="cyan"), it.source)
        print_rich([table])
    else:
        for it in counts:
            typer.echo(printable(f"{it.tools:6}  {it.source}:{it.category}"))


def _print_tools(entries: tuple[ToolEntry, ...], roots: Roots, output: str) -> None:
    if output == "json":
        print_json(
            [
                {
                    "id": str(entry.id),
                    "summary": entry.summary,
                    "signature": entry.signature,
                    "path": roots.shown(entry.path),
                }
                for entry in entries
            ]
        )
    elif output == "ids":
        for entry in entries:
            typer.echo(printable(str(entry.id)))
    elif is_terminal():
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
        table.add_column(no_wrap=True)
        table.add_column()
        for entry in entries:
            name = Text.assemble(
                (printable(f"{entry.id.source}:{entry.id.category}:"), "dim"),
                (printable(entry.id.name), "bold cyan"),
            )
            table.add_row(name, Text(printable(entry.summary)))
        print_rich([table])
    else:
        for entry in entries:
            typer.echo(printable(f"{entry.id}  {entry.summary}"))
