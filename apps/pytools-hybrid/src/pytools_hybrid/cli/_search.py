"""`pytools-hybrid search`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pytools_hybrid.cli._app import app
from pytools_hybrid.cli._embedding import embed
from pytools_hybrid.cli._options import Database, Exclude, Include, Model, Rerank, Root
from pytools_hybrid.cli._run import existing_root, run, settings_from
from pytools_hybrid.errors import RootUnreadableError
from pytools_hybrid.terminal import print_response, print_sync

if TYPE_CHECKING:
    from pathlib import Path

    from pytools_hybrid.search import SearchResponse
    from pytools_hybrid.settings import Settings

# Who searches does not wait for ever for a model that is slow to begin with.
_PATIENCE_SECONDS = 15.0


@app.command(epilog='Example: pytools-hybrid search "send a message to a channel" --limit 3')
def search(
    query: Annotated[str, typer.Argument(help="What the tool should do, in plain language.")],
    *,
    root: Root = None,
    db: Database = None,
    embedding_model: Model = None,
    mode: Annotated[
        Literal["hybrid", "bm25", "vector", "fuzzy"],
        typer.Option(
            help="Words and meaning together, words alone, meaning alone, or words with slips and "
            "parts of names."
        ),
    ] = "hybrid",
    scope: Annotated[
        Literal["all", "gentools", "mcptools"], typer.Option(help="Which tools to search.")
    ] = "all",
    category: Annotated[
        list[str] | None,
        typer.Option(help="Only tools of this category; given several times, of any of them."),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(help="Only tools with this tag; given several times, with all of them."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=50, help="Results at most.")] = 5,
    min_confidence: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="Leave out tools that are less sure to do it; 0.5 prints nothing for most "
            "requests that no tool answers, and for a third of the others.",
        ),
    ] = 0.0,
    rerank: Rerank = None,
    include: Include = None,
    exclude: Exclude = None,
    output: Annotated[
        Literal["text", "json"], typer.Option(help="For people, or for programs.")
    ] = "text",
) -> None:
    """Print the tools that fit a request, best first.

    The index is brought up to date before, and holds only what is on disk.
    """
    settings = settings_from(
        root=root,
        db_path=db,
        embedding_model=embedding_model,
        rerank_model=rerank,
        include=include,
        exclude=exclude,
    )
    tools = existing_root(settings)
    found = _search(
        settings,
        tools,
        query,
        mode=mode,
        scope=scope,
        categories=category,
        tags=tag,
        limit=limit,
        min_confidence=min_confidence,
    )
    response = run(found)
    print_response(response, tools, output)


async def _search(
    settings: Settings,
    root: Path,
    query: str,
    *,
    mode: str,
    scope: str,
    categories: list[str] | None,
    tags: list[str] | None,
    limit: int,
    min_confidence: float,
) -> SearchResponse:
    from toolindex import ToolFilter, ToolIndexError

    from pytools_hybrid.search import Scope, SearchMode
    from pytools_hybrid.service import ToolSearch

    async with ToolSearch(root, settings) as tools:
        if settings.sync and not tools.index.read_only:
            # What fails here is told with the answer, where it makes a difference.
            with suppress(ToolIndexError, RootUnreadableError):
                report, embedded = await tools.refresh(), 0
                if tools.uses_vectors(SearchMode(mode)):
                    _, embedded = await embed(tools, patience=_PATIENCE_SECONDS)
                if report.added or report.updated or report.removed or embedded:
                    print_sync(report, embedded, tools.index.path)
        return await tools.search(
            query,
            mode=SearchMode(mode),
            scope=Scope(scope),
            where=ToolFilter(categories=categories or (), tags=tags or ()),
            limit=limit,
            min_confidence=min_confidence,
        )
