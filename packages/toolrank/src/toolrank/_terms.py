"""What a lexical retriever reports about the terms of a request."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TermStatistics:
    """The table's statistics of a term of the request.

    Attributes:
        term: The term.
        documents: How many rows contain it; a lower bound if it is too common to search for.
        idf: log(1 + (N - n + 0.5) / (n + 0.5)) of N rows, n with the term: above zero.
    """

    term: str
    documents: int
    idf: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TermMatch:
    """A term of the request that a row contains.

    Attributes:
        term: The term as in the request.
        held: The term that the row contains, which differs if the request's is misspelt.
        score: Its contribution to the row's score.
    """

    term: str
    held: str
    score: float
