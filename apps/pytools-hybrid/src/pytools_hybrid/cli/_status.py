"""`pytools-hybrid status`."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from pytools_hybrid.cli._app import app
from pytools_hybrid.cli._options import Database, Model, Output, Root
from pytools_hybrid.cli._run import existing_roots, run, settings_from
from pytools_hybrid.terminal import is_terminal, print_json, print_rich, printable, shown_size

if TYPE_CHECKING:
    from toolindex import UsageStatistics

    from pytools_hybrid.search import CategoryCount
    from pytools_hybrid.settings import Roots, Settings

_SHOWN_CATEGORIES = 12


@app.command(epilog="Example: pytools-hybrid status --output json")
def status(
    *,
    root: Root = None,
    db: Database = None,
    embedding_model: Model = None,
    output: Output = "text",
) -> None:
    """Show what is in the index, without checking the files.

    Channels that are missing or incomplete are reported; doctor says how to fix them.
    """
    settings = settings_from(root=root, database=db, embedding_model=embedding_model)
    values, rows = run(_look(settings, existing_roots(settings)))
    if output == "json":
        print_json(values)
    elif is_terminal():
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
        table.add_column(style="dim", no_wrap=True)
        table.add_column()
        for heading, value in rows:
            style = "yellow" if heading == "note" else ""
            table.add_row(heading, Text(printable(value), style=style))
        print_rich([table])
    else:
        for heading, value in rows:
            typer.echo(printable(f"{heading + ':':<13}{value}"))


async def _look(settings: Settings, roots: Roots) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return what to show, both as JSON values and as headings with texts."""
    from toolindex import ToolIndex

    from pytools_hybrid.index import size_on_disk
    from pytools_hybrid.search import ToolSearch

    async with ToolSearch(roots, settings, refresh=False) as tools:
        # For a shared index, this is the host's copy.
        database = settings.resolved_database(roots)
        server = settings.resolved_server(roots)
        where = str(server or tools.index.store.where)
        freshness = await tools.index.freshness()
        away, waiting = (
            await tools.index.server_unreachable(),
            freshness.waiting if freshness else 0,
        )
        unreadable = freshness.left_out_note if freshness else ""
        store = tools.index.store
        read_only = store.read_only
        restored = await asyncio.to_thread(store.restored) if isinstance(store, ToolIndex) else None
        size = size_on_disk(database)
        probe = await tools.probe()
        coverage = (await tools.index.state()).coverage
        changed_at = await tools.index.changed_at()
        categories = await tools.categories()
        usage = await tools.index.statistics()
        tuning, _ = await asyncio.to_thread(tools.tuning.current)
        is_tuned = tuning is not None and tuning.model_id == probe.model
        interim = tools.index.vectors.interim
        is_taking_over = interim is not None and probe.model == interim.model_id
    model = settings.embedding_model
    from pytools_hybrid.settings import without_tools

    is_here = not settings.only_reads and not coverage.tools
    nothing = await asyncio.to_thread(without_tools, roots) if is_here else None
    notes = (*filter(None, [away, nothing, unreadable]), *probe.notes)
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
    names = len({it.category for it in categories})
    rows = [
        ("tree", server.tree) if server and settings.only_reads else ("root", str(roots)),
        ("database", f"{where} ({shown_size(size)}{_kind(settings, read_only=read_only)})"),
        ("tools", f"{coverage.tools} in {names} {'category' if names == 1 else 'categories'}"),
    ]
    if categories:
        rows.append(("categories", _largest(categories)))
    if model == "none":
        rows.append(("model", "none: words only"))
    else:
        share = f"{coverage.vectors} of {coverage.tools} tools have vectors"
        if is_taking_over:
            share += ", which are used once all have one; pytools-hybrid index embeds the rest"
        used = f"{probe.model} and words" if probe.model else "words alone"
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
    shown = [f"{category} {tools}" for category, tools in largest[:_SHOWN_CATEGORIES]]
    more = len(largest) - len(shown)
    return ", ".join([*shown, f"… {more} more"] if more > 0 else shown)


def _kind(settings: Settings, *, read_only: bool) -> str:
    if settings.server is None:
        return ", read-only" * read_only
    return " in this host's copy" + ", written by other hosts" * settings.only_reads


def _ago(at: float) -> str:
    moment = datetime.fromtimestamp(at, UTC)
    seconds = max((datetime.now(UTC) - moment).total_seconds(), 0.0)
    for length, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'s' * (count != 1)} ago ({moment:%Y-%m-%d %H:%M} UTC)"
    return "less than a minute ago"


def _searches(usage: UsageStatistics) -> str:
    if not usage.searches:
        return "none recorded"
    parts = [f"{usage.searches} recorded", f"{usage.without_results} without results"]
    if usage.acceptance_rate is not None:
        parts.append(f"first result accepted in {usage.acceptance_rate:.0%}")
    if usage.latency_p50_ms is not None:
        # Without the remark, this looks like the latency of a server.
        median = f"median {usage.latency_p50_ms:.0f} ms"
        parts.append(f"{median} (the first of each process loads the model)")
    return ", ".join(parts)
