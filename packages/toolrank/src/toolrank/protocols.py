"""Protocols: a database connection, lexicons, retrievers, rankers, rerankers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence, Set

    from toolrank._equal import Traits
    from toolrank._postings import Posting
    from toolrank._ranker import Channel
    from toolrank._records import Filter, Hit, Query, RankedHit
    from toolrank.rerank import Candidate, RerankOutcome

__all__ = ["Candidates", "MakeRanker", "Reranker", "Retriever"]


class Connection(Protocol):
    """The part of a SQLite connection that retrieval uses.

    `sqlite3.Connection` and `apsw.Connection` both have it.
    """

    def execute(self, sql: str, parameters: Any, /) -> Iterable[Any]:  # noqa: ANN401 - drivers differ
        """Run one statement and return its rows as tuples."""
        ...


class Lexicon(Protocol):
    """The words of some rows in one state: `FullTextTable` reads them from an FTS5 table.

    A row is a number. What is read is cached in `PostingsCache` by those who read, so nothing
    needs to be kept here. Every string is safe as a term. What a method raises reaches users as the
    cause of a `RetrievalError`.
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


class Candidates(Protocol):
    """One state of the rows that `HybridSearch` searches; `Tables` reads it from SQLite.

    What is found is best first, each row once, equal scores by id, and any string is a query.
    """

    def lexical(self, query: str, /, *, depth: int) -> Sequence[Hit]:
        """Return up to `depth` rows that share words with a query."""
        ...

    def fuzzy(self, query: str, /, *, depth: int) -> Sequence[Hit]:
        """Return up to `depth` rows with words that are spelt like those of a query."""
        ...

    def nearest(
        self, vector: Sequence[float], /, *, depth: int, then: Sequence[Sequence[float]] = ()
    ) -> Sequence[Hit]:
        """Return up to `depth` rows by the cosine of their vectors.

        Args:
            vector: The vector of a query.
            depth: How many at most.
            then: What will be asked for next, for rows that can be scored at the same time.
        """
        ...

    def named(self, query: str, /) -> Sequence[Hit]:
        """Return the rows that a query names, those with the best score first."""
        ...

    def corrections(self, query: str, /) -> Mapping[str, str]:
        """Return the words of a query that no row has, with their corrections."""
        ...

    def coverage(
        self, query: str, ids: Sequence[str], /, *, unknown: float = 0.0
    ) -> Mapping[str, float]:
        """Return the share of a query's terms that some rows have, by id.

        Of a term that no row has, `unknown` counts as had. Rows without any may be left out.
        """
        ...

    def scale(self, query: str, /) -> float:
        """Return the divisor that makes scores by words comparable between queries."""
        ...

    @property
    def unfiltered(self) -> Candidates | None:
        """The same without the filter, to compare what passes it with; None without a filter."""
        ...

    @property
    def lacks_vectors(self) -> bool:
        """Whether some rows have no vector."""
        ...

    def with_vectors(self, ids: Collection[str], /) -> Collection[str]:
        """Return which of some rows have a vector."""
        ...

    def existing(self, ids: Sequence[str], /) -> Collection[str]:
        """Return which of some ids can be shown."""
        ...

    def traits(self, ids: Sequence[str], /) -> Mapping[str, Traits]:
        """Return what tells whether rows of one name are equal; one without is kept as it is."""
        ...

    def state(self) -> Hashable:
        """Return a key of the state, until which traits are cached."""
        ...


class Ranker(Protocol):
    """Combines several retrievers' candidates into one ranking: `HybridRanker`, or your own."""

    def rank(self, query: Query, *, limit: int, pinned: Sequence[str] = ()) -> list[RankedHit]:
        """Return up to `limit` hits, each id once: those pinned with a score of 1, then best first.

        Scores are in [0, 1]. A larger limit only adds to the end.
        """
        ...


class MakeRanker(Protocol):
    """Makes the ranker of one search."""

    def __call__(self, channels: Sequence[Channel], usage: Mapping[str, float], /) -> Ranker:
        """Return the ranker for some channels, given the factors of past use by id."""
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
