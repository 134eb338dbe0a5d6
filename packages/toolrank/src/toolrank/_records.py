"""The values that pass between tables, channels, fusion and the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Set

UNITS = {"bm25": 0.015, "vector": 1.0, "fuzzy": 0.015}
"""What a point of a channel's score is worth in cosines, where scores are fused by strength.
They were chosen on sets of tools (docs/decisions/0008 in the repository)."""


class IdColumn(NamedTuple):
    """Where a search table's rows get their public ids.

    Attributes:
        table: A table that shares rowids with the search table.
        column: Its column of unique ids.
    """

    table: str
    column: str


class Filter(NamedTuple):
    """Restricts a search to some rows, before the cut-off at `depth`.

    Attributes:
        sql: A SELECT of one column of rowids. It becomes part of the statement unchanged, so it
            must come from code, not from users.
        parameters: Values for its `?` placeholders.
        rows: The rowids that it selects, if known, so that repeated searches with the same filter
            do not select them again. They must match the state that is searched.
    """

    sql: str
    parameters: tuple[Any, ...] = ()
    rows: Set[int] | None = None


class Hit(NamedTuple):
    """One row found by one channel.

    Attributes:
        id: The row's identifier.
        score: The channel's own score; higher is better, the scale is the channel's.
    """

    id: str
    score: float


class Contribution(NamedTuple):
    """What one channel contributed to a result.

    Attributes:
        retriever: Its name: "bm25", "vector" or "fuzzy".
        rank: The row's position in that channel's list, from 1.
        score: That channel's own score for the row.
        background: The mean score of the list's ranks 11 to 50 (of its last one, where it is
            shorter than that; 0 if it has only this row): the score of a row that merely resembles
            the request. The list is that of all rows, even if the search has a filter.
        rivals: The mean score of the first five rows of other groups among that list's first 50;
            the background where there are none, or no groups.
    """

    retriever: str
    rank: int
    score: float
    background: float = 0.0
    rivals: float = 0.0

    @property
    def strength(self) -> float:
        """How far the score exceeds the background, in cosines; at least 0."""
        return UNITS.get(self.retriever, 1.0) * max(self.score - self.background, 0.0)


class Explanation(NamedTuple):
    """How a result's score was calculated, in the order of the steps.

    Attributes:
        request: The fused score of the whole request, in [0, 1].
        merged: The score of the request and the subquery together.
        subquery: The position in `Query.subqueries` of the one that the row answers best, the
            first of equals; None where there are none, or none found anything.
        subquery_score: Its fused score, in [0, 1].
        group: The best merged score in the row's group, or None where there are no groups.
        usage: The factor of past use; 1.0 where nothing is known.
        verb: The factor of the name's verb: below 1 if it means another action than the request.
        pinned: Whether the request names the row, which then comes first whatever the scores.
        missing: The channels that have no score for the row (e.g. it has no vector): their share
            of its score is an estimate, and no contribution is theirs.
    """

    request: float
    merged: float
    subquery: int | None = None
    subquery_score: float | None = None
    group: float | None = None
    usage: float = 1.0
    verb: float = 1.0
    pinned: bool = False
    missing: tuple[str, ...] = ()
