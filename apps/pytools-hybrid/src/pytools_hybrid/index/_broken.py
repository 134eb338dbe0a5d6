"""Broken files of tools, which searches miss."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from toolscan import ScanIssue

    from pytools_hybrid.settings import Roots

# Such a file was meant to be a tool, even if it never was one.
_FAULTS = {
    *("syntax_error", "too_deep", "surrogate", "encoding", "nul_bytes"),
    *("too_large", "unreadable", "empty"),
}
_NO_FAULTS = {"private", "duplicate_id", "vanished"}
_LINE = re.compile(r"Line (\d+): (.*)", re.DOTALL)


@dataclass(slots=True)
class BrokenTool:
    """A file that was a tool, or was meant to be one.

    Attributes:
        id: The id of its tool; with `*` as the name if the file contains several.
        place: The file, with the line if there is one.
        problem: The reason, as a sentence.
        text: The tool's last indexed text, or the docstrings that can still be read.
        reported_at: When a search last reported it, in seconds of a monotonic clock.
    """

    id: str
    place: str
    problem: str
    text: str = field(repr=False)
    reported_at: float = float("-inf")

    def __str__(self) -> str:
        return f"{self.id} is left out until its file is repaired: {self.place}: {self.problem}"


def suspects(issues: Iterable[ScanIssue], former: Collection[str]) -> list[ScanIssue]:
    """Return the issues of files that are tools, or were meant to be.

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
    """Return the tool of a broken file, with its text; None if no layout has tools there."""
    _, relative = roots.resolve(issue.path)
    for layout in roots.layouts:
        if (values := layout.values(relative)) is not None and not layout.hides(relative):
            id_ = f"{layout.source}:{values['category']}:{values.get('name', '*')}"
            line = _LINE.match(issue.detail)
            place = roots.display_path(issue.path) + (f":{line[1]}" if line else "")
            return BrokenTool(id_, place, line[2] if line else issue.detail, text)
    return None
