"""`pytools-hybrid list`, `describe` and `status`: what the index has."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pytools_hybrid import terminal
from pytools_hybrid.cli import app
from pytools_hybrid.errors import UnknownToolError
from pytools_hybrid.terminal import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType
    from toolindex import ToolEntry, UsageStatistics

    from pytools_hybrid.search import CategoryCount, ToolDescription
    from pytools_hybrid.settings import Roots, Settings

_SHOWN_CATEGORIES = 12


@app.command(
    "list",
    settings="root database",
    epilog="""Examples:

\b
  $ pytools-hybrid list
  $ pytools-hybrid list github pdf
  $ pytools-hybrid list github --output ids""",
)
def list_(
    flags: app.Flags,
    categories: Annotated[
        list[str] | None, typer.Argument(metavar="CATEGORY", help="Categories to list.")
    ] = None,
    *,
    output: Annotated[
        Literal["table", "json", "ids"], typer.Option(help="Output format.")
    ] = "table",
) -> None:
    """Without an argument, each category is printed with its number of tools."""
    settings = app.settings_from(**flags)
    roots = app.existing_roots(settings)

    async def look() -> tuple[tuple[CategoryCount, ...], tuple[ToolEntry, ...], str]:
        from toolindex import ToolFilter

        from pytools_hybrid.search import check_categories, why_no_tools

        async with app.current(settings, roots) as tools:
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

    counts, entries, why = app.run(look())
    if categories or output == "ids":
        tools = [
            {
                "id": str(it.id),
                "summary": it.summary,
                "signature": it.signature,
                "path": roots.display_path(it.path),
            }
            for it in entries
        ]
        columns = [("", "{id}", "cyan"), ("", "{summary}", "")]
        terminal.print_rows(tools, output, line="{id}  {summary}", columns=columns)
    else:
        columns = [("tools", "{tools:>5}", ""), ("category", "{category}", "cyan")]
        columns.append(("source", "{source}", "dim"))
        line = "{tools:6}  {source}:{category}"
        # In this order in JSON.
        names = ("source", "category", "tools")
        rows = [{name: getattr(it, name) for name in names} for it in counts]
        terminal.print_rows(rows, output, line=line, columns=columns)
    if why:
        say(why)
        raise typer.Exit(1)


@app.command(
    "describe",
    settings="root database",
    epilog="""Examples:

\b
  $ pytools-hybrid describe mcptools:github:create_issue
  $ pytools-hybrid describe github__create_issue --detail schema --output json""",
)
def describe(
    flags: app.Flags,
    name: Annotated[str, typer.Argument(metavar="ID", help="An id in any spelling, or a name.")],
    *,
    detail: Annotated[
        Literal["summary", "schema", "full"], typer.Option(help="How much to show.")
    ] = "full",
    output: app.Output = "text",
) -> None:
    """The tool's file is read, not imported."""
    settings = app.settings_from(**flags)
    roots = app.existing_roots(settings)

    async def look() -> ToolDescription | str:
        from pytools_hybrid.search import DetailLevel, why_no_tools

        async with app.current(settings, roots) as tools:
            try:
                return await tools.describe(name, DetailLevel(detail))
            except UnknownToolError:
                if (await tools.index.state()).coverage.tools:
                    raise
                return why_no_tools(tools.index)

    described = app.run(look())
    if isinstance(described, str):
        say(described)
        raise typer.Exit(1)
    if output == "json":
        terminal.print_json(described.model_dump(exclude_none=True))
    elif terminal.is_terminal():
        terminal.print_rich(_parts(described))
    else:
        code = described.stub.rstrip().splitlines() if described.stub else []
        for line in (described.id, *_about(described), *[""] * bool(code), *code):
            typer.echo(terminal.printable(line))


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
        yield f"  {terminal.counted(observations, 'call')}, {usage['successes']} succeeded"
    for note in described.notes or ():
        yield f"  {note}"


def _parts(described: ToolDescription) -> Iterator[RenderableType]:
    from rich.syntax import Syntax
    from rich.text import Text

    yield Text(terminal.printable(described.id), style="bold cyan")
    for line in _about(described):
        yield Text(terminal.printable(line))
    if described.stub:
        code = "\n".join(map(terminal.printable, described.stub.rstrip().splitlines()))
        yield Syntax(f"\n{code}", "python", background_color="default", word_wrap=True)


@app.command(
    "status",
    settings="root database",
    epilog="""Examples:

\b
  $ pytools-hybrid status --output json
  $ pytools-hybrid status --all
  $ pytools-hybrid status --all --database postgresql://me@db.example.com/tools""",
)
def status(
    flags: app.Flags,
    *,
    all_: Annotated[
        bool,
        typer.Option("--all", help="List all indexes: of your cache folder, or of a server."),
    ] = False,
    output: app.Output = "text",
) -> None:
    """The files are not checked. Missing channels are reported; doctor says how to fix them."""
    settings = app.settings_from(**flags)
    if all_:
        _list_indexes(settings, flags["database"], output)
        return
    values, rows = app.run(_look(settings, app.existing_roots(settings)))
    headed = [
        {"heading": f"{heading}:", "value": value, "style": "yellow" if heading == "note" else ""}
        for heading, value in rows
    ]
    columns = [("", "{heading}", "dim"), ("", "{value}", "{style}")]
    terminal.print_rows(headed, output, line="{heading:<13}{value}", columns=columns, value=values)


def _list_indexes(
    settings: Settings, database: str | None, output: Literal["text", "json"]
) -> None:
    if settings.server is not None:
        from pytools_hybrid.cli.database import print_trees

        print_trees(database, output)
        return
    from pytools_hybrid.cli.index import cached_indexes

    indexes = list(cached_indexes())
    values = [it._asdict() for it in indexes]
    terminal.print_rows([{"it": it} for it in indexes], output, line="{it}", value=values)
    if output != "json":
        say(f"{len(indexes)} indexes, {terminal.shown_size(sum(it.bytes for it in indexes))}")


async def _look(settings: Settings, roots: Roots) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return what to show, both as JSON values and as headings with texts."""
    from toolindex import ToolIndex

    from pytools_hybrid.index import size_on_disk
    from pytools_hybrid.search import ToolSearch
    from pytools_hybrid.settings import without_tools

    async with ToolSearch(roots, settings, refresh=False) as tools:
        index, store = tools.index, tools.index.store
        server = settings.resolved_server(roots)
        where = str(server or store.where)
        freshness = await index.freshness()
        away = await index.server_unreachable()
        restored = await asyncio.to_thread(store.restored) if isinstance(store, ToolIndex) else None
        # For a shared index, this is the host's copy.
        size = size_on_disk(settings.resolved_database(roots))
        probe = await tools.probe()
        coverage = (await index.state()).coverage
        changed_at = await index.changed_at()
        categories = await tools.categories()
        usage = await index.statistics()
        tuning, _ = await asyncio.to_thread(tools.tuning.current)
        is_tuned = tuning is not None and tuning.model_id == probe.model
        interim = index.vectors.interim
        is_taking_over = interim is not None and probe.model == interim.model_id
        read_only = store.read_only
    waiting = freshness.waiting if freshness else 0
    unreadable = freshness.left_out_note if freshness else ""
    is_here = not settings.only_reads and not coverage.tools
    nothing = await asyncio.to_thread(without_tools, roots) if is_here else None
    notes = (*filter(None, [away, nothing, unreadable]), *probe.notes)
    model = settings.embedding_model
    values = {
        "roots": [str(root) for root in roots],
        "database": where,
        "bytes": size,
        "read_only": read_only,
        "model": model,
        "model_in_use": probe.model,
        "tuning": str(tools.tuning.path) if is_tuned else None,
        "dimensions": coverage.dimensions,
        "tools": coverage.tools,
        "vectors": coverage.vectors,
        "categories": {f"{it.source}:{it.category}": it.tools for it in categories},
        "changed_at": changed_at,
        "notes": list(notes),
        "searches": usage.searches,
        "without_results": usage.without_results,
        "acceptance_rate": usage.acceptance_rate,
        "latency_p50_ms": usage.latency_p50_ms,
        "latency_p95_ms": usage.latency_p95_ms,
        "waiting": waiting,
    }
    kind = ", read-only" * read_only
    if settings.server is not None:
        kind = " in this host's copy" + ", written by other hosts" * settings.only_reads
    names = len({it.category for it in categories})
    rows = [
        ("tree", server.tree) if server and settings.only_reads else ("root", str(roots)),
        ("database", f"{where} ({terminal.shown_size(size)}{kind})"),
        ("tools", f"{coverage.tools} in {names} {'category' if names == 1 else 'categories'}"),
    ]
    if categories:
        rows.append(("categories", _largest(categories)))
    if model == "none":
        rows.append(("model", "none: keywords only"))
    else:
        share = f"{coverage.vectors} of {coverage.tools} tools have vectors"
        if is_taking_over:
            share += ", which are used once all have one; pytools-hybrid index embeds the rest"
        used = f"{probe.model} and keywords" if probe.model else "keywords alone"
        rows += [("model", f"{model}: {share}"), ("searched by", used)]
    if is_tuned:
        rows.append(("tuned", f"{tuning} ({tools.tuning.path})"))
    # On a host that only reads, the notes say why.
    never = "never" if settings.only_reads else "never: run pytools-hybrid index"
    rows.append(("changed", never if changed_at is None else _ago(changed_at)))
    rows += [("note", note) for note in notes]
    if restored is not None:
        rows.append(("restored", "{} from the backup of {}".format(*map(_ago, restored))))
    rows.append(("searches", _searches(usage)))
    if waiting:
        rows.append(("waiting", f"{waiting} (searches and outcomes not yet sent to the server)"))
    return values, rows


def _largest(categories: tuple[CategoryCount, ...]) -> str:
    counts = Counter[str]()
    for it in categories:
        counts[it.category] += it.tools
    largest = sorted(counts.items(), key=lambda it: (-it[1], it[0]))
    texts = [f"{category} {tools}" for category, tools in largest]
    return ", ".join(terminal.first(texts, _SHOWN_CATEGORIES))


def _ago(at: float) -> str:
    moment = datetime.fromtimestamp(at, UTC)
    seconds = max((datetime.now(UTC) - moment).total_seconds(), 0.0)
    for length, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= length:
            ago = terminal.counted(int(seconds // length), unit)
            return f"{ago} ago ({moment:%Y-%m-%d %H:%M} UTC)"
    return "less than a minute ago"


def _searches(usage: UsageStatistics) -> str:
    if not usage.searches:
        return "none recorded"
    parts = [f"{usage.searches} recorded", f"{usage.without_results} without results"]
    if usage.acceptance_rate is not None:
        parts.append(f"first result accepted in {usage.acceptance_rate:.0%}")
    if usage.latency_p50_ms is not None:
        # Without the remark, this looks like the latency of a server.
        parts.append(f"median {usage.latency_p50_ms:.0f} ms, model loading included")
    return ", ".join(parts)
