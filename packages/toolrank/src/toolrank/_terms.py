"""What a lexical retriever reports about the terms of a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolrank._vocabulary import SimilarTerm


@dataclass(frozen=True, slots=True, kw_only=True)
class TermStatistics:
    """The table's statistics of a term of the request.

    Attributes:
        term: The term.
        documents: How many rows hold it; a lower bound if it is too common to search for.
        idf: log(1 + (N - n + 0.5) / (n + 0.5)) of N rows, n with the term: above zero.
        similar: The terms that are searched for in place of one that no row holds.
    """

    term: str
    documents: int
    idf: float
    similar: tuple[SimilarTerm, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TermMatch:
    """A term of the request that a row holds.

    Attributes:
        term: The term as the request has it.
        held: The term that the row holds: another one where the request's is misspelt.
        score: Its contribution to the row's score.
    """

    term: str
    held: str
    score: float
