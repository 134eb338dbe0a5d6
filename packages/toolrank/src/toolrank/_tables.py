"""Candidates from full-text and vector tables, with the measured constants of their retrievers."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from toolrank._bm25 import BM25Retriever
from toolrank._confidence import lexical_strength
from toolrank._equal import Traits
from toolrank._full_text import FullTextTable
from toolrank._fuzzy import FuzzyRetriever
from toolrank._names import NameRetriever
from toolrank._postings import PostingsCache
from toolrank._records import Query
from toolrank._sql import identifier, rows_of_keys
from toolrank._vector import VectorRetriever
from toolrank.errors import RankingArgumentError, RetrievalError

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Sequence

    from toolrank._records import Filter, Hit
    from toolrank._sql import IdColumn
    from toolrank.protocols import Candidates, Connection, Lexicon, Retriever

# Chosen by ablation: docs/decisions/0008 in the repository.
# Terms in a larger share of the rows distinguish nothing, and cost the most.
_MAX_DF = 0.3
# A row with all the words of a request is better than one that repeats some of them.
_DAMPING = 0.75
_CORRECTION_WEIGHT = 0.5
_SYNONYM_WEIGHT = 0.7
_NAMED = 50
_WORD = re.compile(r"[^\W_]+")


class Tables:
    """Rows of SQLite tables, as `HybridSearch` needs them: words, and if given, vectors and names.

    Args:
        connection: An open `sqlite3` or `apsw` connection.
        words: The FTS5 table, or another lexicon.
        weights: One weight for each column of the FTS5 table; empty weights all equally.
        content: Where rows get their ids, and where `keys` and `text` are; None for rowids.
        vectors: A sqlite-vec table, or a retriever named "vector", such as a `MatrixRetriever`,
            which applies `where` itself.
        keys: Columns with the `name_key` of a name; each row that a request names comes first.
        text: The column whose text tells equal rows apart, such as a description.
        where: The rows to search among.
        similar: The words for searches by similar spelling, if columns count differently there.
        postings: A cache to share between objects, as long as the tables do not change.

    Raises:
        RankingArgumentError: A name that is not plain, or `keys` or `text` without `content`.
    """

    def __init__(
        self,
        connection: Connection,
        words: str | Lexicon,
        *,
        weights: Sequence[float] = (),
        content: IdColumn | None = None,
        vectors: str | Retriever | None = None,
        keys: Sequence[str] = (),
        text: str = "",
        where: Filter | None = None,
        similar: Lexicon | None = None,
        postings: PostingsCache | None = None,
    ) -> None:
        if content is None and (keys or text):
            raise RankingArgumentError("content", "is needed for keys and text")
        self._connection = connection
        self._words: Lexicon = (
            FullTextTable(connection, table=words, weights=weights, content=content)
            if isinstance(words, str)
            else words
        )
        self._similar = similar or self._words
        self._where = where
        self._postings = postings or PostingsCache()
        self._vectors: Retriever | None = (
            VectorRetriever(connection, table=vectors, content=content, where=where)
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

    @cached_property
    def bm25(self) -> BM25Retriever:
        """The retriever by words."""
        return BM25Retriever(
            self._words,
            where=self._where,
            postings=self._postings,
            max_df=_MAX_DF,
            damping=_DAMPING,
            correction_weight=_CORRECTION_WEIGHT,
            synonym_weight=_SYNONYM_WEIGHT,
        )

    def lexical(self, query: str, *, depth: int) -> list[Hit]:
        """Return the rows that share words with a query."""
        return self.bm25.retrieve(Query(text=query), depth=depth)

    def fuzzy(self, query: str, *, depth: int) -> list[Hit]:
        """Return the rows with words that are spelt like those of a query."""
        retriever = FuzzyRetriever(
            self._similar,
            where=self._where,
            postings=self._postings,
            max_df=_MAX_DF,
            damping=_DAMPING,
        )
        return retriever.retrieve(Query(text=query), depth=depth)

    def nearest(
        self, vector: Sequence[float], *, depth: int, then: Sequence[Sequence[float]] = ()
    ) -> list[Hit]:
        """Return the rows whose vectors are nearest to a vector."""
        if self._vectors is None:
            return []
        parts = tuple(Query(text="", vector=each) for each in then)
        return self._vectors.retrieve(Query(text="", vector=vector, parts=parts), depth=depth)

    def named(self, query: str) -> list[Hit]:
        """Return the rows that a query names."""
        return [] if self._names is None else self._names.retrieve(Query(text=query), depth=_NAMED)

    def corrections(self, query: str) -> dict[str, str]:
        """Return the words of a query that no row has, with their corrections."""
        return self.bm25.corrections(query)

    def coverage(self, query: str, ids: Sequence[str], *, unknown: float = 0.0) -> dict[str, float]:
        """Return the share of a query's terms that some rows have; rare terms count the most."""
        return self.bm25.coverage(query, ids, unknown=unknown)

    def scale(self, query: str) -> float:
        """Return the divisor that makes scores by words comparable between queries."""
        one = lexical_strength(1.0, self.bm25.statistics(query))
        return 1 / one if one else 0.0

    @property
    def unfiltered(self) -> Candidates | None:
        """Nothing: with a filter, rows are compared with others that pass it."""
        return None

    @property
    def lacks_vectors(self) -> bool:
        """Whether some rows have no vector; here all of them should have one."""
        return False

    def with_vectors(self, ids: Collection[str]) -> Collection[str]:
        """Return which of some rows have a vector."""
        return ids

    def existing(self, ids: Sequence[str]) -> Collection[str]:
        """Return which of some ids belong to rows."""
        return ids

    def traits(self, ids: Sequence[str]) -> dict[str, Traits]:
        """Return what tells whether rows are equal, by id."""
        if not self._sql:
            return {}
        try:
            rows = rows_of_keys(self._connection, self._sql, ids)
        except Exception as error:
            # Each driver has its own errors, without a common base class below Exception.
            raise RetrievalError("text", error) from error
        texts = {str(id_): str(text or "") for id_, text in rows}
        return {
            id_: Traits.of(_WORD.findall(text.casefold()), identity=" ".join(text.split()))
            for id_, text in texts.items()
        }

    def state(self) -> Hashable:
        """Return a key of the state that is read."""
        return self._postings
