"""The only place where searches are counted, from every interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytools_hybrid.observing import LOST_CHANNELS, SEARCHES, Observed, transport

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pytools_hybrid.search._types import SearchMode, SearchResponse


async def observed(mode: SearchMode, answer: Awaitable[SearchResponse]) -> SearchResponse:
    """Wait for the answer to a search, and count it."""
    with Observed(SEARCHES, transport(), mode.value) as seen:
        response = await answer
        seen.outcome = "found" if response.tools else "early" if response.early else "empty"
        seen.note(
            "tools",
            {
                "gen_ai.request.model": response.model,
                "pytools.channels": response.channels,
                "pytools.lost": response.lost,
                "pytools.results": len(response.tools),
            },
        )
        if response.lost:
            # Only this channel can fail: the others only need the index.
            LOST_CHANNELS.add("vector")
    return response
