"""`pytools-hybrid search`: its options come from the model of the operation's arguments."""

from __future__ import annotations

import sys
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pytools_hybrid import terminal
from pytools_hybrid.cli import app
from pytools_hybrid.errors import SettingsError
from pytools_hybrid.serve.operations import SearchArguments, result_values
from pytools_hybrid.terminal import say

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytools_hybrid.search import FoundTool, RankExplanation, SearchResponse, ToolSearch
    from pytools_hybrid.settings import Roots

    Terms = Mapping[str, Mapping[str, float]]

# A search does not wait long for a slow model.
_PATIENCE_SECONDS = 15.0
_BAR = 8
_WIDE = 60
_TERMS = 6


@app.command(
    "search",
    epilog="""Examples:

\b
  $ pytools-hybrid search send a message to a channel --limit 3
  $ pytools-hybrid search "merge two pdf files" --output ids
  $ pytools-hybrid search "open an issue" --output python >> prompt.md
  $ pytools-hybrid search "open an issue" --explain --why mcptools:github:list_issues

Exits with 1 if nothing was found.""",
    settings="root database embedding_model limit threshold",
    options=app.options_of(
        SearchArguments,
        {
            "mode": ("--mode", "Both channels, words, meaning, or misspelt names."),
            "scope": ("--scope", "The tools to search."),
            "categories": ("--category", "Only tools of this category; repeatable for any."),
            "tags": ("--tag", "Only tools with this tag; repeatable for all."),
            "max_latency_ms": ("--max-latency-ms", ""),
            "min_success_rate": ("--min-success-rate", ""),
            "unknown": ("--without-data", ""),
        },
    ),
)
def search(
    flags: app.Flags,
    words: Annotated[
        list[str],
        typer.Argument(metavar="QUERY", help="What the tool should do, in plain language."),
    ],
    *,
    output: Annotated[
        Literal["table", "json", "ids", "python", "types"],
        typer.Option(help="Output format; python (types) is for prompts."),
    ] = "table",
    explain: Annotated[
        bool, typer.Option("--explain", help="Show ranks, scores and matching words.")
    ] = False,
    why: Annotated[
        str | None, typer.Option(metavar="ID", help="Explain why this tool is not ranked higher.")
    ] = None,
    **given: Any,  # noqa: ANN401 - each field has its own type
) -> None:
    """The best match comes first. The index is updated before the search."""
    output = "python" if output == "types" else output
    if why is not None and output in {"ids", "python"}:
        raise SettingsError(
            "--why", f"cannot be combined with --output {output}; use table or json"
        )
    settings = app.settings_from(**flags)
    roots = app.existing_roots(settings)
    arguments = SearchArguments.model_construct(query=" ".join(words), **given)
    request = arguments.request(settings)

    async def answered() -> tuple[
        SearchResponse, Terms | None, RankExplanation | None, dict[str, str]
    ]:
        from pytools_hybrid.search import DetailLevel, ToolSearch, check_categories

        async with ToolSearch(roots, settings, refresh=False) as tools:
            broken = await _update(tools, uses_vectors=tools.uses_vectors(request.mode))
            await tools.index.warn_of_idle_patterns()
            if arguments.categories:
                known = {it.category for it in await tools.categories()}
                check_categories(arguments.categories, known)
            response = await tools.search(request)
            for text in broken:
                if text not in response.notes:
                    say(f"  {text}")
            ids = [tool.id for tool in response]
            terms = await tools.terms(arguments.query, ids) if explain else None
            placement = None if why is None else await tools.explain_rank(request, why)
            described = [
                await tools.describe(id_, DetailLevel.FULL)
                for id_ in (ids if output == "python" else ())
            ]
            return response, terms, placement, {it.id: it.stub for it in described if it.stub}

    response, terms, placement, stubs = app.run(answered())
    for note in response.notes:
        say(note)
    if output == "json":
        terminal.print_json([_as_json(arguments.query, response, terms, placement, roots)])
    elif output == "python":
        typer.echo("\n\n".join(_as_python(it, stubs) for it in response.tools))
    else:
        rows = [*_rows(response, terms, roots)]
        if output == "ids":
            rows = [{"id": it.id} for it in response.tools]
        elif placement is not None:
            rows += [_row(line, line) for line in placement.lines()]
        columns = (("", "{rank}", "dim"), ("", "{score}", "{tone}"), ("", "{text}", "{style}"))
        terminal.print_rows(rows, output, line="{line}", columns=columns)
    if not response.tools:
        raise typer.Exit(1)


async def _update(tools: ToolSearch, *, uses_vectors: bool) -> list[str]:
    """Update the index; return notes on broken files if it has changed."""
    index = tools.index
    if not tools.settings.sync or index.store.read_only:
        return []
    with terminal.Progress() as progress:
        # The answer reports failures that affect it.
        done = await index.update(
            vectors=uses_vectors, patience=_PATIENCE_SECONDS, progress=progress
        )
    if done.report is not None and done.is_changed:
        terminal.print_sync(done.report, index.store.where, embedded=done.embedded)
        return [str(tool) for tool in index.sync.broken.values()]
    return []


def _as_json(
    query: str,
    response: SearchResponse,
    terms: Terms | None,
    placement: RankExplanation | None,
    roots: Roots,
) -> dict[str, Any]:
    from dataclasses import asdict

    from pytools_hybrid.search import breakdown, reason

    tools: list[dict[str, Any]] = []
    for result, found in zip(result_values(response, roots), response.tools, strict=True):
        values = result | {
            "summary": found.entry.summary,
            "tags": list(found.entry.tags),
            "duplicates": list(found.duplicates),
            "also": list(found.also),
        }
        if terms is not None:
            own = terms.get(str(found.entry.id), {})
            values["reason"] = reason(found)
            values["channels"] = {name: asdict(it) for name, it in breakdown(found).items()}
            values["terms"] = {term: round(score, 6) for term, score in own.items()}
        tools.append(values)
    shown: dict[str, Any] = {
        "query": query,
        "model": response.model,
        "notes": list(response.notes),
        "tools": tools,
    }
    return shown if placement is None else shown | {"why": placement.as_dict()}


def _as_python(found: FoundTool, stubs: Mapping[str, str]) -> str:
    stub = stubs.get(found.id) or f"# {found.signature}"
    return f"# {found.confidence:.2f} confidence: {terminal.printable(found.id)}\n{stub.rstrip()}"


def _details(found: FoundTool, terms: Terms | None) -> Iterator[str]:
    """Yield what follows a tool's path: equal tools, and the explanation if there are terms."""
    from pytools_hybrid.search import breakdown, reason

    if found.duplicates:
        yield f"the same as {', '.join(found.duplicates)}"
    if found.also:
        yield f"also {', '.join(found.also)}"
    if terms is None:
        return
    yield reason(found)
    for name, score in breakdown(found).items():
        line = f"{name:<7}#{score.rank:<4}{score.score:>8.3f}  ({score.contribution:+.3f})"
        matched = terms.get(str(found.entry.id)) if name != "vector" else None
        if matched:
            texts = [f"{term} {part:.1f}" for term, part in matched.items()]
            line += f"  {', '.join(terminal.first(texts, _TERMS))}"
        yield line
    yield f"confidence {found.confidence:.2f}"


def _rows(
    response: SearchResponse, terms: Terms | None, roots: Roots
) -> Iterator[Mapping[str, str]]:
    """Yield the rows of a table: some for each tool, of which only the first has a rank."""
    from toolrank import RECOMMENDED_CONFIDENCE

    for rank, found in enumerate(response.tools, start=1):
        score, id_ = f"{found.score:.2f}", str(found.entry.id)
        tone = "green" if found.confidence >= RECOMMENDED_CONFIDENCE else "yellow"
        first = _row(f"{score}  {id_}  {found.match_type}", f"{id_}  {found.match_type}", "cyan")
        yield {**first, "rank": f"{rank:>2}", "score": f"{score}{_bar(found.score)}", "tone": tone}
        path = roots.display_path(found.entry.path)
        yield _row(f"      {found.entry.summary}", found.entry.summary)
        yield _row(f"      {path}", path, "dim")
        for line in _details(found, terms):
            yield _row(f"      {line}", line, "dim" if terms is None else "magenta")


def _row(line: str, text: str, style: str = "") -> dict[str, str]:
    return {"rank": "", "score": "", "tone": "", "text": text, "style": style, "line": line}


def _bar(score: float) -> str:
    if get_terminal_size().columns < _WIDE:
        return ""
    mark = "━" if sys.stdout.encoding.lower().startswith("utf") else "="
    return f" {mark * round(score * _BAR)}"
