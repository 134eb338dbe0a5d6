"""The value types that pass between query, retrievers, fusion and the caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Contribution", "Filter", "Hit", "Query", "RankedHit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is asked, in the forms the retrievers need.

    Attributes:
        text: The request as the user wrote it; any string at all.
        vector: Its embedding (one float per dimension), or None where there is none;
            a vector retriever then finds nothing.
    """

    text: str
    vector: Sequence[float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The rows a retriever may return, decided inside the search and never after it.

    Attributes:
        sql: A SELECT that gives one column of rowids. It is placed into the statement as
            it is, so it must come from code, not from users.
        parameters: Values for its `?` placeholders.
    """

    sql: str
    parameters: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One row found by one retriever.

    Attributes:
        id: The row's identifier.
        score: The retriever's own score; higher is better, the scale is the retriever's.
    """

    id: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """What one retriever gave to a fused hit.

    Attributes:
        retriever: Its name.
        rank: The hit's position in that retriever's list, from 1.
        score: That retriever's own score for the hit.
    """

    retriever: str
    rank: int
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedHit:
    """One row of the final ranking.

    Attributes:
        id: The row's identifier.
        score: In [0, 1]: the fused score divided by the most that the channels which ran
            could have given. It orders hits of one query; it is no probability.
        contributions: Where the score comes from, in the order of the channels.
    """

    id: str
    score: float
    contributions: tuple[Contribution, ...]
