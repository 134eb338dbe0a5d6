"""Files that should be tools, and cannot be read as such: a search may miss them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toolscan import Reason

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from toolscan import ScanIssue

    from pytools_hybrid.settings import Roots

# Whatever such a file was before, it was meant to be a tool.
_FAULTS = {
    *(Reason.SYNTAX_ERROR, Reason.TOO_DEEP, Reason.SURROGATE, Reason.ENCODING, Reason.NUL_BYTES),
    *(Reason.TOO_LARGE, Reason.UNREADABLE, Reason.EMPTY),
}
_NO_FAULTS = {Reason.PRIVATE, Reason.DUPLICATE_ID, Reason.OVER_LIMIT, Reason.VANISHED}
_LINE = re.compile(r"Line (\d+): (.*)", re.DOTALL)


@dataclass(slots=True)
class BrokenTool:
    """A file that was a tool, or was meant to be one.

    Attributes:
        id: The id of its tool; without a name if it contains several.
        place: The file, and the line if that is known.
        problem: What is wrong with it.
        text: What it did, as indexed last, or as far as its docstrings can still be read.
        told_at: When a search last mentioned it, in seconds of a monotonic clock.
    """

    id: str
    place: str
    problem: str
    text: str = field(repr=False)
    told_at: float = float("-inf")

    def __str__(self) -> str:
        return f"{self.id} is left out until its file is repaired: {self.place}: {self.problem}"


def suspects(issues: Iterable[ScanIssue], former: Collection[str]) -> list[ScanIssue]:
    """Return the issues of files that are broken, unless they still contain other tools.

    Args:
        issues: The issues of a scan.
        former: The paths that had tools before it.
    """
    return [
        issue
        for issue in issues
        if issue.reason in _FAULTS or (issue.path in former and issue.reason not in _NO_FAULTS)
    ]


def broken_tool(issue: ScanIssue, text: str, roots: Roots) -> BrokenTool | None:
    """Describe the tool of a broken file, with its text; None if no layout has tools there."""
    _, relative = roots.locate(issue.path)
    for layout in roots.layouts:
        if (values := layout.values(relative)) is not None and not layout.hides(relative):
            id_ = f"{layout.source}:{values['category']}:{values.get('name', '*')}"
            line = _LINE.match(issue.detail)
            place = roots.shown(issue.path) + (f":{line[1]}" if line else "")
            return BrokenTool(id_, place, line[2] if line else issue.detail, text)
    return None
