"""The state of the index, as part of several answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytools_hybrid.search import ToolSearch


async def index_state(search: ToolSearch) -> dict[str, Any]:
    """Return the generation and the coverage of an index, as JSON values."""
    state = await search.index.state()
    return {
        "generation": state.generation,
        "coverage": {"tools": state.coverage.tools, "vectors": state.coverage.vectors},
    }
