"""Protocols: a database connection, retrievers, rankers, rerankers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolrank._records import Hit, Query, RankedHit
    from toolrank._rerank import Candidate, RerankOutcome

__all__ = ["Connection", "Ranker", "Reranker", "Retriever"]


class Connection(Protocol):
    """The part of a SQLite connection that retrieval uses.

    `sqlite3.Connection` and `apsw.Connection` both have it.
    """

    def execute(self, sql: str, parameters: Any, /) -> Iterable[Any]:  # noqa: ANN401 - drivers differ
        """Run one statement and return its rows as tuples."""
        ...


@runtime_checkable
class Retriever(Protocol):
    """A source of ranked candidates.

    An implementation returns at most `depth` hits, best first, each id once, equal scores in the
    order of their ids, scores finite. A shorter answer is a prefix of a longer one, except for ties
    at its end, and the same query has the same answer while the source does not change. It
    returns an empty list for a query that it cannot answer, such as one without a vector where
    it needs one, ignores the parts of a query, and raises only if the source itself is broken:
    every string is safe.

    `toolrank.testing.check_retriever` checks one.
    """

    @property
    def name(self) -> str:
        """How this retriever is called in contributions, unique within a ranker."""
        ...

    def retrieve(self, query: Query, *, depth: int) -> list[Hit]:
        """Return the best `depth` candidates (at least 1) for the query."""
        ...


class Ranker(Protocol):
    """Combines several retrievers' candidates into one ranking: `HybridRanker`, or your own."""

    def rank(self, query: Query, *, limit: int, pinned: Sequence[str] = ()) -> list[RankedHit]:
        """Return up to `limit` hits, each id once: those pinned with a score of 1, then best first.

        Scores are in [0, 1]. A larger limit only adds to the end.
        """
        ...


@runtime_checkable
class Reranker(Protocol):
    """A second opinion on the order of hits that were found.

    An implementation returns every hit of its input, once, and nothing else; scores stay with the
    ranks, so that they are sorted as before. On a failure the order stays as it was, with the
    reason in the outcome; only a cancellation is raised.
    """

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> RerankOutcome:
        """Order the candidates (best first, any number) by how well they answer the query."""
        ...
