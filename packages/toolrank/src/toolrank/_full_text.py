"""Reading a full-text table term by term."""

from __future__ import annotations

import json
import math
from array import array
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from toolrank._postings import Posting, Postings, best_sums
from toolrank._query import match_expression
from toolrank._records import Hit
from toolrank._spelling import forms
from toolrank._sql import identifier
from toolrank._vocabulary import SimilarTerm, Vocabulary, read_vocabulary
from toolrank.errors import RetrievalError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence, Set

    from toolrank._records import Filter
    from toolrank._sql import Content
    from toolrank.protocols import Connection

_SPELLINGS_READ = 16
_LEAST_IDF = 1e-6
# So few rows cost nothing to read, and in a small table common words are worth having.
FEW_ROWS = 100
# Nothing is called that, and to remember it takes as much memory as a thousand terms.
_MAX_TERM = 1000
NOWHERE = Posting(rows=array("q"), scores=array("d"), documents=0)


class FullTextTable:
    """One FTS5 table: the postings of its terms, its vocabulary, the ids of its rows.

    Args:
        connection: An open connection.
        table: The table.
        weights: One weight a column; empty weighs all alike.
        evenness: As `BM25Retriever` has it.
        content: Where rows get their ids.
        name: The retriever to name in errors.
        postings: Where what was read is looked up first.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        table: str,
        weights: Sequence[float],
        evenness: float,
        content: Content | None,
        name: str,
        postings: Postings,
    ) -> None:
        self._connection = connection
        self._table = identifier(table, argument="table")
        self._evenness = evenness
        self._content = content
        self._name = name
        self._postings = postings
        arguments = ", ".join([table, *(repr(float(weight)) for weight in weights)])
        # bm25() written out is faster than the column `rank`.
        self._sql = f"SELECT rowid, -bm25({arguments}) FROM {table} WHERE {table} MATCH ?"  # noqa: S608

    @property
    def key(self) -> tuple[str, float]:
        """A key of everything that the scores of the table's terms depend on."""
        return self._sql, self._evenness

    def size(self) -> int:
        """Return the number of rows."""
        return self._postings.once(("size", self._table), self._count_rows)

    def posting(self, term: str, *, up_to: int | None = None) -> Posting:
        """Return the rows that hold a term, or a phrase of several words.

        Args:
            term: Any string.
            up_to: Read no rows of a term that more rows hold.
        """
        if len(term) > _MAX_TERM:
            return NOWHERE
        key = (*self.key, term)
        posting = self._postings.get(key)
        if posting is None or not (
            posting.is_read or (up_to is not None and posting.documents > up_to)
        ):
            posting = self._read(match_expression([term]), up_to)
            self._postings.put(key, posting)
        return posting

    def vocabulary(self) -> Vocabulary:
        """Return the terms of all columns."""
        return self._postings.once(("vocabulary", self._table), self._read_vocabulary)

    def similar(self, word: str, *, up_to: int) -> list[tuple[SimilarTerm, Posting]]:
        """Return the terms that an unknown word may stand for, with their postings."""
        found = (self.stem_posting(term, up_to=up_to) for term in self.vocabulary().similar(word))
        return [each for each in found if each is not None]

    def stem_posting(self, term: SimilarTerm, *, up_to: int) -> tuple[SimilarTerm, Posting] | None:
        """Return a term of the vocabulary in a form that is searched for, with its posting.

        Returns:
            None for a term that no form was found of, or that more rows hold.
        """
        for form in forms(term.term):
            posting = self.posting(form, up_to=up_to)
            # A stem may have a shorter stem of its own; another form leads to the term.
            if posting.documents == term.documents and posting.rows:
                return replace(term, term=form), posting
        return None

    def spellings(self, term: str) -> list[str]:
        """Return the words behind a stemmed term, as rows spell them, in lower case."""
        sql = (
            f"SELECT snippet({self._table}, -1, char(2), char(3), '', 1) "  # noqa: S608
            f"FROM {self._table} WHERE {self._table} MATCH ? LIMIT {_SPELLINGS_READ}"
        )
        found = [row[0] or "" for row in self.rows(sql, (match_expression([term]),))]
        marked = [text.partition("\2")[2].partition("\3")[0].lower() for text in found]
        return [word for word in marked if word]

    def ids(self, rows: Sequence[int]) -> dict[int, str]:
        """Return the ids of rows; a row that the content table lacks has none."""
        if self._content is None:
            return {row: str(row) for row in rows}
        known = self._postings.once(("ids", self._content), dict[int, str])
        if missing := [row for row in rows if row not in known]:
            sql = (
                f"SELECT rowid, {self._content.column} FROM {self._content.table} "  # noqa: S608
                "WHERE rowid IN (SELECT value FROM json_each(?))"
            )
            known.update((row, str(id_)) for row, id_ in self.rows(sql, (json.dumps(missing),)))
        return {row: known[row] for row in rows if row in known}

    def rows_of(self, ids: Iterable[str]) -> dict[str, int]:
        """Return the rows that have some ids; an id that no row has is left out."""
        if self._content is None:
            return {id_: int(id_) for id_ in ids if id_.isascii() and id_.isdecimal()}
        known = self._postings.once(("rows", self._content), dict[str, int])
        ids = [*ids]
        if missing := [id_ for id_ in ids if id_ not in known]:
            sql = (
                f"SELECT {self._content.column}, rowid FROM {self._content.table} "  # noqa: S608
                f"WHERE {self._content.column} IN (SELECT value FROM json_each(?))"
            )
            known.update((str(id_), row) for id_, row in self.rows(sql, (json.dumps(missing),)))
        return {id_: known[id_] for id_ in ids if id_ in known}

    def too_common(self, share: float) -> int:
        """Return the number of rows above which a term is too common."""
        return max(int(share * self.size()), FEW_ROWS)

    def hits(
        self, weighted: Sequence[tuple[Posting, float]], *, where: Filter | None, depth: int
    ) -> list[Hit]:
        """Return the best rows by the sum of their postings' scores, best first.

        Args:
            weighted: Postings, each with a factor for its scores.
            where: The rows to search among.
            depth: How many.

        Raises:
            RetrievalError: The database refuses the filter.
        """
        allowed = self.allowed(where) if weighted else None
        best = best_sums(weighted, depth=depth, allowed=allowed)
        ids = self.ids(list(best))
        ranked = sorted((-best[row], id_) for row, id_ in ids.items())
        return [Hit(id=id_, score=-cost) for cost, id_ in ranked[:depth]]

    def allowed(self, where: Filter | None) -> Set[int] | None:
        """Return the rows that match a filter; None for all.

        Raises:
            RetrievalError: The database refuses it.
        """
        if where is None or where.rows is not None:
            return where.rows if where else None
        return {row for (row,) in self.rows(where.sql, where.parameters)}

    def rows(self, sql: str, parameters: tuple[Any, ...]) -> list[Any]:
        """Run a statement.

        Raises:
            RetrievalError: The database refuses it.
        """
        try:
            return list(self._connection.execute(sql, parameters))
        except Exception as error:
            # Each driver has errors of its own, with no common root below Exception.
            raise RetrievalError(self._name, error) from error

    def _read(self, expression: str, up_to: int | None) -> Posting:
        if up_to is not None and self.size() > up_to:
            # Counting is ten times faster than scoring.
            some = f"SELECT 1 FROM {self._table} WHERE {self._table} MATCH ? LIMIT {up_to + 1}"  # noqa: S608
            ((count,),) = self.rows(f"SELECT count(*) FROM ({some})", (expression,))  # noqa: S608
            if count > up_to:
                return Posting(rows=array("q"), scores=array("d"), documents=count)
        found = self.rows(self._sql, (expression,))
        rows, scores = zip(*found, strict=True) if found else ((), ())
        return Posting(
            rows=array("q", rows),
            scores=array("d", scores if self._evenness == 1 else self._evened(scores)),
            documents=len(rows),
        )

    def _evened(self, scores: Sequence[float]) -> list[float]:
        documents = len(scores)
        # The IDF of FTS5's bm25(), which has a floor for terms in more than half of the rows.
        rarity = (self.size() - documents + 0.5) / (documents + 0.5)
        idf = math.log(rarity) if rarity > 1 else _LEAST_IDF
        return [idf * (score / idf) ** self._evenness for score in scores]

    def _count_rows(self) -> int:
        try:
            # A thousand times faster than counting the table itself, where it exists.
            ((count,),) = self.rows(f"SELECT count(*) FROM {self._table}_docsize", ())  # noqa: S608
        except RetrievalError:
            ((count,),) = self.rows(f"SELECT count(*) FROM {self._table}", ())  # noqa: S608
        return int(count)

    def _read_vocabulary(self) -> Vocabulary:
        try:
            return read_vocabulary(self._connection, self._table)
        except Exception as error:
            raise RetrievalError(self._name, error) from error
