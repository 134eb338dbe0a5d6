"""Limiting the number of tools in an index to the first by id."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from toolscan import Reason, ScanIssue, ToolScanError, find_tools

if TYPE_CHECKING:
    from toolscan import ToolId

    from pytools_hybrid.settings import Roots

_LIMIT = "beyond the {:,} that max_tools (PYTOOLS_MAX_TOOLS) allows: the first by id are kept"


class Listing:
    """The tools of some trees, by the names of their files; of two with one id, the first tree's.

    Args:
        roots: The trees. One that cannot be listed holds none.
        outside_links: Whether tools outside their tree count that symbolic links lead to.
    """

    def __init__(self, roots: Roots, *, outside_links: bool) -> None:
        places: dict[ToolId, tuple[int, str]] = {}
        for number, root in enumerate(roots):
            # The scan reports what keeps it from being listed.
            with suppress(ToolScanError):
                for id_, path in find_tools(root, outside_links=outside_links).items():
                    places.setdefault(id_, (number, path))
        self._roots = roots
        self._places = [places[id_] for id_ in sorted(places)]

    def __len__(self) -> int:
        return len(self._places)

    def first(self, most: int) -> list[str]:
        """Return the paths of the first tools, relative to their trees."""
        return [path for _, path in self._places[:most]]

    def beyond(self, most: int) -> tuple[ScanIssue, ...]:
        """Return an issue for each tool after the first ones."""
        detail = f"It is one of the tools {_LIMIT.format(most)}."
        return tuple(
            ScanIssue(
                path=self._roots.stored(number, path), reason=Reason.OVER_LIMIT, detail=detail
            )
            for number, path in self._places[most:]
        )


def left_out(count: int, most: int) -> str:
    """Return a sentence that says how many tools are left out, and why."""
    return f"{count:,} tools are left out, {_LIMIT.format(most)}"
