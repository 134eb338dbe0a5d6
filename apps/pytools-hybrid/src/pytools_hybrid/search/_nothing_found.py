"""What to say where nothing was found, and what to try."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolrank import query_terms

from pytools_hybrid.settings import no_tools

if TYPE_CHECKING:
    from pytools_hybrid.index import Filling
    from pytools_hybrid.search._types import SearchRequest, SearchResponse
    from pytools_hybrid.settings import Roots


def why_empty(
    request: SearchRequest,
    response: SearchResponse,
    *,
    root: Roots,
    count: int,
    syncs: bool,
    fails: bool,
    filling: Filling | None,
    is_filtered: bool,
) -> str:
    """Explain why nothing was found, and what to try.

    Args:
        request: What was asked.
        response: The empty answer.
        root: The trees.
        count: How many tools may be found at all.
        syncs: Whether the index follows the files.
        fails: Whether that has failed the last time, which is told elsewhere.
        filling: How far an index that is being filled has come, if that is known.
        is_filtered: Whether who asked wanted some of the tools only.
    """
    if not response.is_complete and fails:
        return f"the tools of {root} could not be indexed: pytools-hybrid doctor says more"
    if not response.is_complete and syncs:
        far = "" if filling is None else f" ({filling})"
        return f"the tools of {root} are still being indexed{far}: try again in a moment"
    if response.tool_count and not count:
        return "no tool can be found: the settings include and exclude leave none"
    if count == 0:
        remedy = "" if syncs else "; syncing is off: run pytools-hybrid index"
        return f"{no_tools(root)}{remedy}"
    if not query_terms(request.text):
        return "the query contains no words: describe what the tool should do"
    if request.min_confidence > 0:
        return (
            f"none of the {count} tools is likely enough to do this (confidence of at least "
            f"{request.min_confidence:g}): ask for less confidence, or try other words"
        )
    if is_filtered:
        return (
            f"none of the {count} tools passes the filters and fits: use fewer filters; note that "
            "names of categories and tags have to match exactly"
        )
    return f"none of the {count} tools fits the request: try other words"
