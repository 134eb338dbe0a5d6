"""What toolrank needs from others: a database connection, retrievers to fuse, second opinions."""

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
        """Run one statement and give its rows as tuples."""
        ...


@runtime_checkable
class Retriever(Protocol):
    """A source of ranked candidates.

    An implementation gives at most `depth` hits, best first, each id once, equal scores in
    the order of their ids, scores finite. A shorter answer is the beginning of a longer one, save
    which of several equals its end leaves out, and the same query has the same answer while the
    source does not change. It gives an empty list for a query it has no answer to, as one
    without a vector where it needs one, looks at no parts of a query, and raises only when the
    source itself is broken: every string is safe.

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
    """What makes one ranking of several retrievers' candidates: `HybridRanker`, or your own."""

    def rank(self, query: Query, *, limit: int, pinned: Sequence[str] = ()) -> list[RankedHit]:
        """Return up to `limit` hits, each id once: those pinned with a score of 1, then best first.

        Scores are in [0, 1]. A larger limit only adds to the end.
        """
        ...


@runtime_checkable
class Reranker(Protocol):
    """A second opinion on the order of hits that were found.

    An implementation gives back every hit that it was given, once, and nothing else; scores
    stay with the places, so that they are sorted as before. A failure of its own leaves the
    order as it was, with the reason in the outcome; only a cancellation is raised.
    """

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> RerankOutcome:
        """Order the candidates (best first, any number) by how well they answer the query."""
        ...
