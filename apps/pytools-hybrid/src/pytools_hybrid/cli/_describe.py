"""`pytools-hybrid describe`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pytools_hybrid.cli._options import Database, Exclude, Include, Output, Root
from pytools_hybrid.cli._run import current, existing_roots, run, settings_from
from pytools_hybrid.cli.app import app
from pytools_hybrid.errors import UnknownToolError
from pytools_hybrid.terminal import is_terminal, print_json, print_rich, printable, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from pytools_hybrid.search import ToolDescription


@app.command(
    epilog="""Examples:

\b
  $ pytools-hybrid describe mcptools:github:create_issue
  $ pytools-hybrid describe github__create_issue --detail schema --output json"""
)
def describe(
    name: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="The tool: its id in this or another system's spelling, or just its name.",
        ),
    ],
    *,
    root: Root = None,
    db: Database = None,
    include: Include = None,
    exclude: Exclude = None,
    detail: Annotated[
        Literal["summary", "schema", "full"], typer.Option(help="How much to show.")
    ] = "full",
    output: Output = "text",
) -> None:
    """Describe a tool: how to call it, its parameters and result, and its recorded use.

    Its file is read, not imported.
    """
    settings = settings_from(root=root, database=db, include=include, exclude=exclude)
    roots = existing_roots(settings)

    async def look() -> ToolDescription | str:
        from pytools_hybrid.search import DetailLevel, why_no_tools

        async with current(settings, roots) as tools:
            try:
                return await tools.describe(name, DetailLevel(detail))
            except UnknownToolError:
                if (await tools.index.state()).coverage.tools:
                    raise
                return why_no_tools(tools.index)

    described = run(look())
    if isinstance(described, str):
        say(described)
        raise typer.Exit(1)
    if output == "json":
        print_json(described.model_dump(exclude_none=True))
    elif is_terminal():
        print_rich(_parts(described))
    else:
        for line in _lines(described):
            typer.echo(printable(line))


def _lines(described: ToolDescription) -> Iterator[str]:
    yield described.id
    yield from _about(described)
    if described.stub:
        yield ""
        yield from described.stub.rstrip().splitlines()


def _about(described: ToolDescription) -> Iterator[str]:
    yield f"  {described.summary}"
    if described.path:
        yield f"  {described.path}"
    elif described.signature:
        yield f"  {described.signature}"
    if described.tags:
        yield f"  tags: {', '.join(described.tags)}"
    usage = described.usage or {}
    if observations := usage.get("observations"):
        yield f"  used {observations} times, {usage['successes']} of them successfully"
    for note in described.notes or ():
        yield f"  {note}"


def _parts(described: ToolDescription) -> Iterator[RenderableType]:
    from rich.syntax import Syntax
    from rich.text import Text

    yield Text(printable(described.id), style="bold cyan")
    for line in _about(described):
        yield Text(printable(line))
    if described.stub:
        code = "\n".join(map(printable, described.stub.rstrip().splitlines()))
        yield Syntax(f"\n{code}", "python", background_color="default", word_wrap=True)
