"""Gold tools that are not in the index: how many, which, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolscan import ToolId, ToolScanError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from toolscan import Layout, ScanIssue

    from pytools_hybrid.jobs.evaluate._queries import EvaluationQuery

_EXAMPLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownGold:
    """Gold ids that are not in the index.

    In every measure they count as not found, because a search cannot find a tool that is left out.

    Attributes:
        count: The number of such ids.
        total: The number of all gold ids.
        queries: The number of queries with such an id.
        examples: The first of them, with the reasons.
    """

    count: int
    total: int
    queries: int
    examples: Mapping[str, str]

    @property
    def sentence(self) -> str:
        """A sentence on the number of these ids, and that their queries count nevertheless."""
        are, them = ("is", "it") if self.count == 1 else ("are", "them")
        which = (
            f"query that names {them} counts"
            if self.queries == 1
            else f"{self.queries} queries that name {them} count"
        )
        return (
            f"{self.count} of {self.total} gold ids {are} not in the index; "
            f"the {which} nevertheless"
        )

    def __str__(self) -> str:
        listed = "".join(f"\n  {id_}: {reason}" for id_, reason in self.examples.items())
        more = self.count - len(self.examples)
        return listed + (f"\n  … and {more} more" if more else "")


def unknown_gold(
    queries: Iterable[EvaluationQuery],
    known: Iterable[str],
    issues: Sequence[ScanIssue],
    layouts: Sequence[Layout],
) -> UnknownGold:
    """Find gold ids that are not in the index, with reasons as far as the scan can tell."""
    known = frozenset(known)
    asked = list(queries)
    every = dict.fromkeys(id_ for query in asked for id_ in query.gold)
    unknown = [id_ for id_ in every if id_ not in known]
    left_out = {issue.path: issue.detail for issue in issues}
    return UnknownGold(
        count=len(unknown),
        total=len(every),
        queries=sum(not known.issuperset(query.gold) for query in asked),
        examples={id_: _why(id_, left_out, layouts) for id_ in unknown[:_EXAMPLES]},
    )


def _why(id_: str, left_out: Mapping[str, str], layouts: Sequence[Layout]) -> str:
    try:
        tool = ToolId.parse(id_)
    except ToolScanError as error:
        return str(error)
    for layout in layouts:
        if layout.source == tool.source:
            path = layout.path_of(tool.category, tool.name)
            if path in left_out:
                return f"{path} was left out: {left_out[path]}"
            if layout.holds_several:
                return f"{path} contains no tool {tool.name}"
            return f"the tree has no tool at {path}"
    sources = ", ".join(layout.source for layout in layouts)
    return f"the layouts have no source {tool.source!r}, only {sources}"
