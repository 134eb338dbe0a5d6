"""`pytools-hybrid search`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pytools_hybrid.cli._app import app
from pytools_hybrid.cli._found import Answer, print_answer
from pytools_hybrid.cli._options import (
    Alpha,
    Database,
    Exclude,
    Include,
    Model,
    Rerank,
    Root,
)
from pytools_hybrid.cli._run import existing_roots, run, settings_from
from pytools_hybrid.errors import SettingsError
from pytools_hybrid.terminal import Progress, print_sync, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytools_hybrid.search import ToolSearch

# A search does not wait long for a slow model.
_PATIENCE_SECONDS = 15.0


@app.command(
    epilog="""Examples:

\b
  $ pytools-hybrid search send a message to a channel --limit 3
  $ pytools-hybrid search "merge two pdf files" --output ids
  $ pytools-hybrid search "open an issue" --output python >> prompt.md
  $ pytools-hybrid search "open an issue" --explain --why mcptools:github:list_issues

Exits with 1 if nothing was found."""
)
def search(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="QUERY", help="What the tool should do, in plain language, quoted or not."
        ),
    ],
    *,
    root: Root = None,
    db: Database = None,
    embedding_model: Model = None,
    mode: Annotated[
        Literal["hybrid", "bm25", "vector", "fuzzy"],
        typer.Option(
            help="Search by words and meaning, words alone, meaning alone, or misspelt words and "
            "parts of names."
        ),
    ] = "hybrid",
    scope: Annotated[
        Literal["all", "gentools", "mcptools"], typer.Option(help="Which tools to search.")
    ] = "all",
    category: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=("Only tools of this category; can be repeated for any of several."),
        ),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Only tools with this tag; can be repeated for all of several."
        ),
    ] = None,
    max_latency_ms: Annotated[
        float | None,
        typer.Option(
            metavar="MS",
            min=0,
            help="Leave out tools whose median latency is known to be above this.",
        ),
    ] = None,
    min_success_rate: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            min=0,
            max=1,
            help="Leave out tools whose share of successes is known to be below this.",
        ),
    ] = None,
    unknown: Annotated[
        Literal["include", "exclude"],
        typer.Option(help="What to do with tools whose latency or success rate is unknown."),
    ] = "include",
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            "--top-k",
            metavar="N",
            min=1,
            max=50,
            help="Maximum number of results. [env: PYTOOLS_LIMIT; default: 5]",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            "--min-confidence",
            metavar="SHARE",
            min=0,
            max=1,
            help="Leave out tools with a lower confidence; with 0.5, most requests that no tool "
            "answers find nothing. [env: PYTOOLS_THRESHOLD; default: 0]",
        ),
    ] = None,
    alpha: Alpha = None,
    rerank: Rerank = None,
    include: Include = None,
    exclude: Exclude = None,
    output: Annotated[
        Literal["table", "json", "ids", "python", "types"],
        typer.Option(
            help="For people; for programs; only ids, for scripts; or confidences, import lines "
            "and signatures, for a prompt ('types' is another name for 'python')."
        ),
    ] = "table",
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help=(
                "Show each channel's rank and score for a tool, and the words of the query "
                "it contains."
            ),
        ),
    ] = False,
    why: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Explain why this tool is not ranked higher."),
    ] = None,
) -> None:
    """Print the tools that fit a request, best first.

    The index is first brought up to date with the files.
    """
    query, output = " ".join(words), "python" if output == "types" else output
    if why is not None and output in {"ids", "python"}:
        raise SettingsError(
            "--why", f"cannot be combined with --output {output}; use table or json"
        )
    settings = settings_from(
        root=root,
        database=db,
        embedding_model=embedding_model,
        rerank_model=rerank,
        include=include,
        exclude=exclude,
        limit=limit,
        threshold=threshold,
        alpha=alpha,
    )
    roots = existing_roots(settings)
    from toolindex import ToolFilter

    where = ToolFilter(
        categories=category or (),
        tags=tag or (),
        max_latency_ms=max_latency_ms,
        min_success_rate=min_success_rate,
        unknown=unknown,
    )

    async def answered() -> Answer:
        from pytools_hybrid.search import Scope, SearchMode, ToolSearch, check_categories

        how: dict[str, Any] = {"mode": SearchMode(mode), "scope": Scope(scope), "where": where}
        async with ToolSearch(roots, settings, refresh=False) as tools:
            broken = await _update(tools, mode)
            await tools.index.warn_of_idle_patterns()
            if category:
                check_categories(category, {it.category for it in await tools.categories()})
            response = await tools.search(query, **how)
            for text in broken:
                if text not in response.notes:
                    say(f"  {text}")
            ids = [tool.id for tool in response]
            return Answer(
                query=query,
                response=response,
                terms=await tools.terms(query, ids) if explain else None,
                placement=await tools.explain_rank(query, why, **how) if why is not None else None,
                stubs=await _stubs(tools, ids) if output == "python" else {},
            )

    answer = run(answered())
    print_answer(answer, roots, output)
    if not answer.response.tools:
        raise typer.Exit(1)


async def _stubs(tools: ToolSearch, ids: Iterable[str]) -> dict[str, str]:
    from pytools_hybrid.search import DetailLevel

    described = [await tools.describe(id_, DetailLevel.FULL) for id_ in ids]
    return {it.id: it.stub for it in described if it.stub}


async def _update(tools: ToolSearch, mode: str) -> list[str]:
    """Update the index; return notes on broken files if it has changed."""
    from pytools_hybrid.search import SearchMode

    index = tools.index
    if not tools.settings.sync or index.store.read_only:
        return []
    with Progress() as progress:
        # The answer reports failures that affect it.
        done = await index.update(
            vectors=tools.uses_vectors(SearchMode(mode)),
            patience=_PATIENCE_SECONDS,
            progress=progress,
        )
    if done.report is not None and done.is_changed:
        print_sync(done.report, index.store.where, embedded=done.embedded)
        return [str(tool) for tool in index.sync.broken.values()]
    return []
