"""Notes that come with an answer: doubt, missing data, an outdated index, and why it is empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolrank import RECOMMENDED_CONFIDENCE, Query
from toolscan import ToolId

from pytools_hybrid.index import server_unreachable
from pytools_hybrid.settings import no_tools, without_tools

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolindex import ToolFilter

    from pytools_hybrid.index import BrokenTool, Index
    from pytools_hybrid.search.types import SearchRequest, SearchResponse

_FEW = 20
# The least share of a request's terms in the text of a broken tool.
_HALF = 0.5
_ENDING = 3


def doubt(response: SearchResponse, threshold: float) -> str:
    """Return a note if no tool is a confident match, or an empty string.

    Args:
        response: The answer.
        threshold: The confidence that the caller requires; 0 for the recommended one.
    """
    # Among a few tools, a good match cannot be told from a poor one.
    if not response.tools or response.tool_count < _FEW:
        return ""
    enough = threshold or RECOMMENDED_CONFIDENCE
    if any(found.confidence >= enough for found in response.tools):
        return ""
    return "Low confidence: these are only the closest matches."


def unknown(response: SearchResponse, where: ToolFilter) -> str:
    """Return a note on tools that passed a usage filter only because data is missing, if any."""
    count = sum(not where.can_judge(found.outcomes) for found in response.tools)
    if not count:
        return ""
    return (
        f"{count} of {len(response.tools)} results have too few recorded calls for this filter; "
        "unknown=exclude drops them."
    )


def stale(index: Index, response: SearchResponse, away: str = "") -> tuple[str, ...]:
    """Return notes on why an answer may be out of date.

    `away` says that the server of a shared index is away, in place of other reasons.
    """
    if away and not response.tool_count and index.settings.only_reads:
        # There is nothing that could be out of date; an empty answer gives the reason itself.
        return ()
    return (away,) if away else _out_of_date(index, response)


def broken(
    tools: Iterable[BrokenTool], request: SearchRequest, response: SearchResponse
) -> list[BrokenTool]:
    """Return the broken tools that a search would probably have listed."""
    terms, where = Query(request.text).terms, request.where
    found = [
        tool
        for tool in tools
        if where.passes_id(tool.id)
        and where.source in (None, tool.id.split(":")[0])
        and (not where.categories or tool.id.split(":")[1] in where.categories)
    ]
    if not found or not terms:
        return []
    listed = [_fit(terms, f"{it.id} {it.description}") for it in response.tools]
    least = min(listed) if len(listed) >= request.limit else 0.0
    return [tool for tool in found if _fit(terms, f"{tool.id} {tool.text}") >= max(least, _HALF)]


def _fit(terms: list[str], text: str) -> float:
    """Return the share of a request's terms that a text contains, ignoring endings."""
    words = set(ToolId.words_of(text))
    return sum(any(_alike(term, word) for word in words) for term in terms) / len(terms)


def _alike(term: str, word: str) -> bool:
    shorter, longer = sorted((term, word), key=len)
    stem = shorter[: max(3, len(shorter) - 1)]
    return term == word or (longer.startswith(stem) and len(longer) - len(stem) <= _ENDING)


def _out_of_date(index: Index, response: SearchResponse) -> tuple[str, ...]:
    if index.sync.failure is not None:
        return (f"the index may be out of date ({index.sync.failure})",)
    if index.store.read_only and not index.settings.only_reads:
        note = "the index may be out of date: it cannot be written"
        problem = index.store.durable_problem
        return (note, f"the usage record is not used: {problem}") if problem else (note,)
    if not response.is_complete:
        # An empty answer says so anyway.
        is_told = not response.tools or not index.settings.sync
        far = index.sync.progress or "the index does not contain all tools yet"
        return () if is_told else (f"more may be found in a moment: {far}",)
    if index.sync.is_first_scan:
        return ("the index may be out of date: the files are still being scanned",)
    return ()


def why_no_tools(index: Index, *, hidden: int = 0) -> str:
    """Explain why no tool can be found in an index, and what to try.

    Args:
        index: The index.
        hidden: How many tools it has that the policy hides.
    """
    if hidden:
        return "no tool can be found: the settings include and exclude hide all of them"
    settings = index.settings
    if problem := server_unreachable(index.store):
        return f"This host has not downloaded the index yet: {problem}"
    if settings.only_reads:
        return (
            "the shared index has no tools yet: run pytools-hybrid index on a host that has them, "
            "with the same PYTOOLS_DATABASE; or its tree has another name, or this role may not "
            "read it (pytools-hybrid database grant)"
        )
    if settings.sync:
        return no_tools(index.roots)
    nothing = without_tools(index.roots) or f"the index of {index.roots} is empty"
    return f"{nothing}; syncing is off: run pytools-hybrid index"


def why_empty(
    index: Index,
    request: SearchRequest,
    response: SearchResponse,
    *,
    count: int,
    is_filtered: bool,
) -> str:
    """Explain why nothing was found, and what to try.

    Args:
        index: The index.
        request: The request.
        response: The empty answer.
        count: How many tools can be found at all.
        is_filtered: Whether the caller set a filter.
    """
    settings, roots = index.settings, index.roots
    if not response.is_complete and index.sync.failure is not None:
        return (
            f"the tools of {roots} could not be indexed ({index.sync.failure}): pytools-hybrid "
            "doctor says more"
        )
    if not response.is_complete and settings.sync:
        filling = index.sync.progress
        far = "" if filling is None else f" ({filling})"
        return f"the tools of {roots} are still being indexed{far}: try again in a moment"
    if count == 0:
        return why_no_tools(index, hidden=response.tool_count)
    if not Query(request.text).terms:
        return "the query contains no words: describe what the tool should do"
    if request.min_confidence > 0:
        return (
            f"No tool reaches a confidence of {request.min_confidence:g}. Lower the threshold or "
            "rephrase the query."
        )
    if is_filtered:
        return (
            "No tool matches the query and the filters. Category and tag names must match exactly."
        )
    return "No tool matches. Rephrase the query."
