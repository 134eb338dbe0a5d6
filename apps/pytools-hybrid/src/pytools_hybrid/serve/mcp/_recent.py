"""The last search of each session that listed a tool.

Few clients show an answer's `_meta` to their model, so a model cannot send the search id back.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_SECONDS = 3600.0
_MOST = 20_000


class RecentSearches:
    """Stores the last search that listed a tool, for each session.

    Args:
        seconds: How long a search is stored.
        most: The maximum number of listed tools, over all sessions.
    """

    def __init__(self, *, seconds: float = _SECONDS, most: int = _MOST) -> None:
        self._seconds = seconds
        self._most = most
        # The oldest first.
        self._searches: dict[tuple[str, str], tuple[float, str]] = {}

    def add(self, session: str | None, search_id: str, tool_ids: Iterable[str]) -> None:
        """Store the tools that a search has listed; without a session, nothing."""
        if session is None:
            return
        for tool_id in tool_ids:
            self._searches.pop((session, tool_id), None)
            self._searches[session, tool_id] = time.monotonic(), search_id
        while len(self._searches) > self._most:
            del self._searches[next(iter(self._searches))]

    def search_of(self, session: str | None, tool_id: str) -> str | None:
        """Return the id of the last search of a session that listed a tool, if there is one."""
        if session is None:
            return None
        at, search_id = self._searches.get((session, tool_id), (0.0, None))
        return search_id if time.monotonic() - at < self._seconds else None
