"""Protocols: a database connection, lexicons, retrievers, rankers, rerankers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence, Set

    from toolrank._postings import Posting
    from toolrank._records import Filter, Hit, Query, RankedHit
    from toolrank._rerank import Candidate, RerankOutcome

__all__ = ["Connection", "Lexicon", "Ranker", "Reranker", "Retriever"]


class Connection(Protocol):
    """The part of a SQLite connection that retrieval uses.

    `sqlite3.Connection` and `apsw.Connection` both have it.
    """

    def execute(self, sql: str, parameters: Any, /) -> Iterable[Any]:  # noqa: ANN401 - drivers differ
        """Run one statement and return its rows as tuples."""
        ...


class Lexicon(Protocol):
    """The words of some rows in one state: `FullTextTable` reads them from an FTS5 table.

    A row is a number. What is read is cached in `Postings` by those who read, so nothing needs to
    be kept here. Every string is safe as a term. What a method raises reaches users as the cause of
    a `RetrievalError`.
    """

    @property
    def source(self) -> Hashable:
        """A key of what is read: equal if the rows and their ids are the same."""
        ...

    @property
    def weights(self) -> tuple[float, ...]:
        """The weights of the columns, on which scores depend."""
        ...

    def size(self) -> int:
        """Return the number of rows."""
        ...

    def posting(self, term: str, *, up_to: int | None = None) -> Posting:
        """Return the rows that contain a term or a phrase, with their BM25 scores.

        Args:
            term: The term as a request has it, to be stemmed as the rows are.
            up_to: If more rows contain it, they need not be read: their number, or any above
                `up_to`, is enough.
        """
        ...

    def vocabulary(self) -> Mapping[str, int]:
        """Return the terms as stored, stemmed, with the number of rows that contain each."""
        ...

    def spellings(self, term: str) -> Sequence[str]:
        """Return words with a stem, as rows spell them, in lower case; or none."""
        ...

    def ids(self, rows: Collection[int]) -> Mapping[int, str]:
        """Return the ids of rows; one that has none is left out."""
        ...

    def rows_of(self, ids: Collection[str]) -> Mapping[str, int]:
        """Return the rows that have some ids; an id that no row has is left out."""
        ...

    def allowed(self, where: Filter) -> Set[int]:
        """Return the rows that a filter selects, if it does not list them itself."""
        ...


@runtime_checkable
class Retriever(Protocol):
    """A source of ranked candidates.

    An implementation returns at most `depth` hits, best first, each id once, equal scores in the
    order of their ids, scores finite. A shorter answer is a prefix of a longer one, except for ties
    at its end, and the same query has the same answer while the source does not change. It
    returns an empty list for a query that it cannot answer, such as one without a vector where
    it needs one, has the same answer with or without parts, and raises only if the source itself
    is broken: every string is safe.

    `toolrank.testing.check_retriever` checks one.
    """

    @property
    def name(self) -> str:
        """The name of this retriever in contributions, unique within a ranker."""
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
    """Reorders the first hits of a ranking.

    An implementation returns every hit of its input, once, and nothing else; scores stay with the
    ranks, so that they are sorted as before. On a failure the order stays as it was, with the
    reason in the outcome; only a cancellation is raised.
    """

    async def rerank(self, query: str, candidates: Sequence[Candidate]) -> RerankOutcome:
        """Order the candidates (best first, any number) by how well they answer the query."""
        ...
