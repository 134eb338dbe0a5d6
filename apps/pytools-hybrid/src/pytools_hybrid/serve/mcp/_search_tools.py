"""The tool `search_tools`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, Field, create_model
from toolindex import ToolFilter

from pytools_hybrid.errors import IndexNotReadyError
from pytools_hybrid.search import Scope, SearchMode, check_categories
from pytools_hybrid.serve.mcp._tool import Arguments, ServedTool, answer
from pytools_hybrid.serve.results import ToolResult, answer_meta, tool_results
from pytools_hybrid.settings import DEFAULT_LIMIT, MAX_LIMIT
from pytools_hybrid.text import first_sentences, json_text, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp.types import CallToolResult

    from pytools_hybrid.index import Follower
    from pytools_hybrid.search import ToolSearch
    from pytools_hybrid.serve.calls import ToolCaller
    from pytools_hybrid.serve.mcp._categories import Inventory
    from pytools_hybrid.serve.mcp._offered import Progress
    from pytools_hybrid.serve.mcp._recent import RecentSearches

_ABOUT = "Find Python tools by what they do, best first."
_ABOUT_CALLING = "Find tools by what they do, best first; call_tool calls them."
_NOTE_CHARACTERS = 300
# The id contains these fields.
_IN_THE_ID = {"name", "category", "source"}

# A model that needs the whole docstring can call describe_tool.
_DESCRIPTION_CHARACTERS = 800


class SearchArguments(Arguments):
    """What to search for, and how."""

    query: Annotated[str, Field(description="One need, in plain language")]
    mode: Annotated[
        Literal["hybrid", "bm25", "vector", "fuzzy"],
        Field(description="bm25: words; vector: meaning; hybrid: both; fuzzy: misspelt names"),
    ] = "hybrid"
    scope: Literal["all", "gentools", "mcptools"] = "all"
    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = DEFAULT_LIMIT
    categories: Annotated[list[str] | None, Field(description="Any of these")] = None
    tags: Annotated[list[str] | None, Field(description="All of these")] = None
    max_latency_ms: Annotated[float | None, Field(ge=0)] = None
    min_success_rate: Annotated[float | None, Field(ge=0, le=1)] = None
    unknown: Annotated[
        Literal["include", "exclude"], Field(description="Without data for these")
    ] = "include"
    threshold: Annotated[float | None, Field(ge=0, le=1, description="Least confidence")] = None
    detail: Literal["full", "summary"] = "full"


class SearchHit(ToolResult):
    """A tool that was found; the first has the notes on the answer."""

    note: str | None = None


class SearchAnswer(BaseModel):
    """The tools found, best first, and nothing else: some clients unwrap a lone `result`."""

    result: list[SearchHit]


def search_tools(
    search: ToolSearch,
    follower: Follower,
    inventory: Inventory,
    recent: RecentSearches,
    caller: ToolCaller | None = None,
) -> ServedTool[SearchArguments]:
    """Create the tool for an open `ToolSearch`; with a caller, results say how to call them."""

    async def about() -> str:
        begin = _ABOUT if caller is None else _ABOUT_CALLING
        return f"{begin} {await inventory.sentence()}".rstrip()

    async def run(asked: SearchArguments, progress: Progress) -> CallToolResult:
        await follower.ready(progress)
        if asked.categories and search.index.sync.filling is None:
            check_categories(asked.categories, await inventory.counts())
        response = await search.search(
            asked.query,
            mode=SearchMode(asked.mode),
            scope=Scope(asked.scope),
            where=ToolFilter(
                categories=asked.categories or (),
                tags=asked.tags or (),
                max_latency_ms=asked.max_latency_ms,
                min_success_rate=asked.min_success_rate,
                unknown=asked.unknown,
            ),
            limit=asked.limit,
            threshold=asked.threshold,
        )
        if response.early:
            # A client that only reads structured content could mistake an empty list for an answer.
            raise IndexNotReadyError(response.early)
        found = tool_results(response, search.roots, detail=asked.detail)
        results: Sequence[BaseModel] = [_shortened(result) for result in found]
        if caller is not None:
            from pytools_hybrid.serve.mcp._callable_results import callable_results

            tools = await caller.looked_up(it.entry for it in response.tools)
            results = callable_results(found, tools)
        hits = [result.model_dump(exclude_unset=True) for result in results]
        lines = [
            json_text({key: it for key, it in hit.items() if key not in _IN_THE_ID}) for hit in hits
        ]
        if response.notes:
            note = "; ".join(one_line(it, _NOTE_CHARACTERS) for it in response.notes)
            lines.append(f"Note: {note}")
            if hits:
                # Some clients show their model only the structured content.
                hits[0]["note"] = note
        for tool in response.tools:
            listed = (tool.id, *tool.also, *tool.duplicates)
            recent.add(progress.session, response.search_id, listed)
        cut = [
            it.id for it, hit in zip(found, hits, strict=True) if _is_cut(it, hit["description"])
        ]
        return answer({"result": hits}, "\n".join(lines), meta=answer_meta(response, cut))

    return ServedTool(
        name="search_tools",
        title="Search tools",
        arguments=_arguments(search.settings.limit),
        result=_answer_model(caller),
        about=about,
        run=run,
    )


def _answer_model(caller: ToolCaller | None) -> type[BaseModel]:
    if caller is None:
        return SearchAnswer
    from pytools_hybrid.serve.mcp._callable_results import CallableAnswer

    return CallableAnswer


def _arguments(limit: int) -> type[SearchArguments]:
    """Return the arguments, with the limit from the settings as the default that agents see."""
    if limit == DEFAULT_LIMIT:
        return SearchArguments
    return create_model(
        "SearchArguments",
        __base__=SearchArguments,
        limit=(Annotated[int, Field(ge=1, le=MAX_LIMIT)], limit),
    )


def _is_cut(result: ToolResult, shown: str) -> bool:
    return result.description.split() != shown.split()


def _shortened(result: ToolResult) -> ToolResult:
    description = result.description
    if len(description) <= _DESCRIPTION_CHARACTERS:
        return result
    begin = first_sentences(description, _DESCRIPTION_CHARACTERS)
    return result.model_copy(update={"description": f"{begin} … (describe_tool: all)"})
