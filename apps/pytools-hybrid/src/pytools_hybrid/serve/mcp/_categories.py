"""The sentence about indexed categories in the descriptions of `search_tools` and `call_tool`."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from toolindex import ToolIndexError

from pytools_hybrid.text import one_line

if TYPE_CHECKING:
    from pytools_hybrid.index import Follower
    from pytools_hybrid.search import ToolSearch

_log = logging.getLogger("pytools_hybrid")

# A client that lists the tools of many servers waits for the slowest of them.
_PATIENCE_SECONDS = 1.0
# Folder names are untrusted, and long ones add nothing.
_NAME_CHARACTERS = 40
# About 55 tokens.
_LISTED_CHARACTERS = 155


class Inventory:
    """Reports which categories of tools exist."""

    def __init__(self, search: ToolSearch, follower: Follower) -> None:
        self._search = search
        self._follower = follower

    async def counts(self) -> Counter[str]:
        """Count the tools of each category that can be found.

        An existing index is read without waiting; the wait for a new one is short.
        """
        if not await self._follower.opened(within=_PATIENCE_SECONDS):
            return Counter()
        counts = await self._counts()
        if not counts and await self._follower.looked(within=_PATIENCE_SECONDS):
            counts = await self._counts()
        return counts

    async def sentence(self, *, counted: bool = True) -> str:
        """Return the sentence, largest categories first; empty if the index cannot be read."""
        try:
            counts = await self.counts()
        except ToolIndexError as error:
            _log.info("the descriptions of tools lack categories: %s", error)
            return ""
        if not counts:
            # A client may cache this sentence for its whole session, in which tools may be added.
            return "None are indexed so far; search anyway."
        largest = sorted(counts, key=lambda name: (-counts[name], name))
        shown: list[str] = []
        for name in largest:
            shown.append(one_line(name, _NAME_CHARACTERS))
            if len(", ".join(shown)) > _LISTED_CHARACTERS:
                shown.pop()
                break
        noun = "category" if len(counts) == 1 else "categories"
        begin = f"Indexed: {counts.total()} in {len(counts)} {noun}" if counted else "Categories"
        return f"{begin}: {', '.join(shown)}{', …' if len(shown) < len(largest) else '.'}"

    async def _counts(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for it in await self._search.categories():
            counts[it.category] += it.tools
        return counts
