"""The state of the index, as several answers tell it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytools_hybrid.service import ToolSearch

__all__ = ["index_state"]


async def index_state(search: ToolSearch) -> dict[str, Any]:
    """Give the generation and the coverage of an index, as values of JSON.

    Raises:
        DatabaseError: The index cannot be read.
    """

    def generation() -> int:
        with search.index.reading() as reader:
            return reader.generation()

    coverage = await search.coverage()
    return {
        "generation": await asyncio.to_thread(generation),
        "coverage": {"tools": coverage.tools, "vectors": coverage.vectors},
    }
