"""Which tools a search may return, as a subquery that runs inside the search."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ToolFilter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFilter:
    """A restriction on tools; the default lets all pass.

    Attributes:
        source: Only tools of this source (`mcptools`, `gentools`, …).
    """

    source: str | None = None

    def rowids(self) -> tuple[str, tuple[str, ...]] | None:
        """Give a SELECT of the allowed rowids with its parameters, or None for all."""
        if self.source is None:
            return None
        return "SELECT rowid FROM entries WHERE source = ?", (self.source,)
