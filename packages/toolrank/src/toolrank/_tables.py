"""Candidates from full-text and vector tables of SQLite."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolrank._arguments import identifier, json_array
from toolrank._bm25 import BM25Retriever
from toolrank._full_text import FullTextTable
from toolrank._fuzzy import FuzzyRetriever
from toolrank._names import NameRetriever
from toolrank._postings import PostingsCache
from toolrank._vectors import VectorRetriever
from toolrank.errors import RankingArgumentError, RetrievalError

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Sequence

    from toolrank._bm25 import TermMatch
    from toolrank._records import Filter, Hit, IdColumn
    from toolrank._vectors import MatrixRetriever
    from toolrank.protocols import Candidates, Connection

_NAMED = 50
_WORD = r"[^\W_]+"


class Tables:
    """Rows of SQLite tables: found by words, similar spelling, vectors and names.

    `HybridSearch` combines all of these; each can be used alone. Any string is a query, and hits
    are best first, ties by id. Scores by words are BM25 scores with the measured settings of
    decision 8 (in the repository): rows with all words of a request come before those that repeat
    some, terms in more than 30 % of the rows are left out unless there are no others, misspelt
    words are corrected, and names have their synonyms.

    Args:
        connection: An open `sqlite3` or `apsw` connection.
        words: The FTS5 table, in the schema `main`.
        weights: One weight for each column of it; empty weights all equally.
        fuzzy_weights: The same for searches by similar spelling, if columns count differently
            there.
        content: Where rows get their ids, and where `keys` and `text` are; None for rowids.
        vectors: A sqlite-vec table with a column `embedding` and `distance_metric=cosine`, or a
            `MatrixRetriever`, which applies `where` itself.
        keys: Columns with the `name_key` of a name; each row that a request names comes first.
        text: The column whose text tells equal rows apart, such as a description.
        where: The rows to search among.
        postings: A cache to share between objects, as long as the tables do not change.

    Raises:
        RankingArgumentError: A name that is not plain, or `keys` or `text` without `content`.
        RetrievalError: (in methods) A table is missing or broken.
    """

    def __init__(
        self,
        connection: Connection,
        words: str,
        *,
        weights: Sequence[float] = (),
        fuzzy_weights: Sequence[float] | None = None,
        content: IdColumn | None = None,
        vectors: str | MatrixRetriever | None = None,
        keys: Sequence[str] = (),
        text: str = "",
        where: Filter | None = None,
        postings: PostingsCache | None = None,
    ) -> None:
        if content is None and (keys or text):
            raise RankingArgumentError("content", "is needed for keys and text")
        self._connection = connection
        self._postings = postings or PostingsCache()

        def table(weights: Sequence[float], name: str) -> FullTextTable:
            return FullTextTable(
                connection,
                words,
                weights=weights,
                content=content,
                where=where,
                postings=self._postings,
                name=name,
            )

        self._table = table(weights, "bm25")
        self._bm25 = BM25Retriever(self._table)
        self._fuzzy = FuzzyRetriever(
            table(weights if fuzzy_weights is None else fuzzy_weights, "fuzzy")
        )
        self._vectors = (
            VectorRetriever(connection, vectors, content=content, where=where)
            if isinstance(vectors, str)
            else vectors
        )
        self._names = (
            NameRetriever(connection, content=content, keys=keys, where=where)
            if content is not None and keys
            else None
        )
        self._sql = ""
        if content is not None and text:
            self._sql = (
                f"SELECT {content.column}, {identifier(text, argument='text')} "  # noqa: S608
                f"FROM {content.table} WHERE {content.column} IN (SELECT value FROM json_each(?))"
            )

    @property
    def ids(self) -> dict[int, str]:
        """The known ids by rowid, to be filled in; those of its `PostingsCache`."""
        return self._table.ids

    def lexical(self, query: str, /, *, depth: int) -> list[Hit]:
        """Return the best rows that share words with a query, by BM25."""
        return self._bm25.retrieve(query, depth=depth)

    def fuzzy(self, query: str, /, *, depth: int) -> list[Hit]:
        """Return the best rows with words that are spelt like those of a query."""
        return self._fuzzy.retrieve(query, depth=depth)

    def nearest(
        self, vector: Sequence[float], /, *, depth: int, then: Sequence[Sequence[float]] = ()
    ) -> list[Hit]:
        """Return the rows whose vectors are nearest to a vector, by cosine."""
        if self._vectors is None:
            return []
        return self._vectors.nearest(vector, depth=depth, then=then)

    def named(self, query: str, /) -> list[Hit]:
        """Return the rows that a query names: 1 if it is the name, .5 if it mentions it."""
        return [] if self._names is None else self._names.retrieve(query, depth=_NAMED)

    def corrections(self, query: str, /) -> dict[str, str]:
        """Return the words of a query that no row has, with their corrections."""
        return self._bm25.corrections(query)

    def coverage(
        self, query: str, ids: Sequence[str], /, *, unknown: float = 0.0
    ) -> dict[str, float]:
        """Return the share of a query's terms that some rows have; rare terms count the most."""
        return self._bm25.coverage(query, ids, unknown=unknown)

    def matches(self, query: str, ids: Sequence[str], /) -> dict[str, tuple[TermMatch, ...]]:
        """Return the terms of a query that rows contain: `term`, `matched` and `score` of each.

        `matched` differs from `term` if that is misspelt. The scores add up to the row's.
        """
        return self._bm25.matches(query, ids)

    def scale(self, query: str, /) -> float:
        """Return the divisor that makes scores by words comparable between queries."""
        return self._bm25.scale(query)

    @property
    def unfiltered(self) -> Candidates | None:
        """Nothing: with a filter, rows are compared with others that pass it."""
        return None

    @property
    def lacks_vectors(self) -> bool:
        """Whether some rows have no vector; here all of them should have one."""
        return False

    def with_vectors(self, ids: Collection[str], /) -> Collection[str]:
        """Return which of some rows have a vector."""
        return ids

    def existing(self, ids: Sequence[str], /) -> Collection[str]:
        """Return which of some ids belong to rows."""
        return ids

    def traits(
        self, ids: Sequence[str], /
    ) -> dict[str, tuple[Sequence[str], Sequence[str], Hashable]]:
        """Return what tells whether rows are equal, by id: the words of their texts."""
        if not self._sql:
            return {}
        try:
            rows = list(self._connection.execute(self._sql, (json_array(ids),)))
        except Exception as error:
            # Each driver has its own errors, without a common base class below Exception.
            raise RetrievalError("text", error) from error
        texts = {str(id_): str(text or "") for id_, text in rows}
        return {
            id_: (re.findall(_WORD, text.casefold()), (), " ".join(text.split()))
            for id_, text in texts.items()
        }

    def state(self) -> Hashable:
        """Return a key of the state that is read."""
        return self._postings
