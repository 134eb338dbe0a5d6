"""The value types that pass between query, retrievers, fusion and the caller."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence, Set


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A request, in the forms that retrievers need.

    Attributes:
        text: The request as the user wrote it; any string at all.
        vector: Its embedding (one float per dimension), or None; without it, a vector retriever
            finds nothing.
        parts: The parts of a compound request, each a query of its own, searched for after the
            whole; empty if the request asks for one thing. Retrievers ignore them, and parts of
            parts are not searched for.
    """

    text: str
    vector: Sequence[float] | None = None
    parts: tuple[Query, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
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
    rows: Set[int] | None = field(default=None, compare=False, repr=False)


class Hit(NamedTuple):
    """One row found by one retriever.

    Attributes:
        id: The row's identifier.
        score: The retriever's own score; higher is better, the scale is the retriever's.
    """

    id: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """What one retriever contributed to a fused hit.

    Attributes:
        retriever: Its name.
        rank: The hit's position in that retriever's list, from 1.
        score: That retriever's own score for the hit.
        background: The mean score of the list's ranks 11 to 50 (of its last one, where it is
            shorter than that; 0 if it has only this hit): the score of a row that merely resembles
            the request. The list is the unfiltered one if the channel has one.
        rivals: The mean score of the first five hits of other groups than the hit's among that
            list's first `PART_DEPTH`; the background where there are none, or no groups.
    """

    retriever: str
    rank: int
    score: float
    background: float = 0.0
    rivals: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """How a hit's score was calculated, in the order of the steps.

    Attributes:
        request: The fused score of the whole request, in [0, 1].
        part: The position in `Query.parts` of the part that the hit answers best, the first
            of equals; None where no part was asked for or none found anything.
        part_score: The fused score of that part, in [0, 1].
        merged: The score of the request and the part together.
        group: The best merged score in the hit's group, or None where there are no groups.
        usage: The factor of past use; 1.0 where nothing is known.
        verb: The factor of the name's verb, as `verb_prior` gives it.
        pinned: Whether the hit was named to come first, whatever the scores.
        missing: The channels that have no score for the hit (e.g. it has no vector), in their
            order: their part of its score is an estimate, and no contribution is theirs.
    """

    request: float
    part: int | None = None
    part_score: float | None = None
    merged: float
    group: float | None = None
    usage: float = 1.0
    verb: float = 1.0
    pinned: bool = False
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedHit:
    """One row of the final ranking.

    Attributes:
        id: The row's identifier.
        score: In [0, 1], where 1.0 is the most that the channels which ran could have given.
            It orders the hits of one query; it is not a probability.
        contributions: What each channel contributed for the whole request, in the order of the
            channels; a channel that does not have the hit contributed nothing.
        part_contributions: The same for the part of the request that the hit answers best,
            `explanation.part`.
        explanation: How the score came about.
    """

    id: str
    score: float
    contributions: tuple[Contribution, ...]
    part_contributions: tuple[Contribution, ...] = ()
    explanation: Explanation | None = None
