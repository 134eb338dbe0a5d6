"""Reading an FTS5 table term by term, through a cache."""

from __future__ import annotations

import math
from array import array
from threading import get_ident
from typing import TYPE_CHECKING, Any

from toolrank._arguments import check_weight, identifier, json_array
from toolrank._postings import EMPTY, Posting, PostingsCache, best_sums
from toolrank._query import match_expression
from toolrank._records import Hit
from toolrank._spelling import SimilarTerm, Vocabulary, forms
from toolrank.errors import RankingArgumentError, RetrievalError

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Sequence, Set

    from toolrank._records import Filter, IdColumn
    from toolrank.protocols import Connection

_LEAST_IDF = 1e-6
# So few rows are read quickly, and in a small table common words are useful.
FEW_ROWS = 100
# No term is this long, and caching it would take as much memory as a thousand terms.
_MAX_TERM = 1000
_SPELLINGS_READ = 16


class FullTextTable:
    """An FTS5 table whose terms are read once for each state.

    Args:
        connection: An open `sqlite3` or `apsw` connection.
        table: The table, in the schema `main`.
        weights: One weight per column, in the table's order; empty weights all equally.
        content: Where rows get their ids; without it an id is the rowid in digits.
        where: The rows to search among.
        postings: What was read of this state of the table.
        damping: How much repetitions of a term in a row count: a term's part of the score is
            idf · (part / idf) ** damping. 1 is plain BM25; smaller values prefer rows with more
            of the request's terms.
        max_df: A term in more than this share of the rows is too common to search for; one in at
            most 100 rows never is.
        name: The channel in errors.

    Raises:
        RankingArgumentError: A table name that is not plain, or a number that scores cannot be
            computed with.
        RetrievalError: (in methods) The table cannot be read.
    """

    def __init__(
        self,
        connection: Connection,
        table: str,
        *,
        weights: Sequence[float] = (),
        content: IdColumn | None = None,
        where: Filter | None = None,
        postings: PostingsCache | None = None,
        damping: float = 0.75,
        max_df: float = 0.3,
        name: str = "bm25",
    ) -> None:
        for position, weight in enumerate(weights):
            check_weight(weight, of=f"column {position}", argument="weights")
        if not 0 < damping <= 1:
            raise RankingArgumentError("damping", f"{damping} is not above 0 and at most 1")
        if not 0 <= max_df <= 1:
            raise RankingArgumentError("max_df", f"{max_df} is not a share, from 0 to 1")
        self._connection = connection
        self._table = identifier(table, argument="table")
        self._content = content
        self._sql_of_ids = "" if content is None else ids_of_rows(content)
        self._where = where
        self.postings = postings or PostingsCache()
        self._damping = damping
        self._max_df = max_df
        self._name = name
        self._source: Hashable = table, content
        self.key: Hashable = self._source, tuple(weights), damping, max_df
        """A key of everything that the scores of the terms depend on."""
        arguments = ", ".join([table, *(repr(float(weight)) for weight in weights)])
        # bm25() written out is faster than the column `rank`.
        self._sql = f"SELECT rowid, -bm25({arguments}) FROM {table} WHERE {table} MATCH ?"  # noqa: S608

    def size(self) -> int:
        """Return the number of rows."""
        return self.postings.cached_fact(("size", self._source), self._count)

    def _count(self) -> int:
        try:
            # If this table exists, reading it is a thousand times faster than counting.
            ((count,),) = self._rows(f"SELECT count(*) FROM {self._table}_docsize")  # noqa: S608
        except RetrievalError:
            ((count,),) = self._rows(f"SELECT count(*) FROM {self._table}")  # noqa: S608
        return int(count)

    def max_documents(self) -> int:
        """Return the number of rows above which a term is too common."""
        return max(int(self._max_df * self.size()), FEW_ROWS)

    def posting(self, term: str, *, up_to: int | None = None) -> Posting:
        """Return the rows that contain a term, or a phrase of several words.

        Args:
            term: Any string.
            up_to: Do not read the rows of a term that more rows contain.
        """
        if len(term) > _MAX_TERM:
            return EMPTY
        key = self.key, term
        posting = self.postings.get(key)
        if posting is None or not (
            posting.is_read or (up_to is not None and posting.documents > up_to)
        ):
            limit = up_to if up_to is not None and self.size() > up_to else None
            posting = self._read_posting(match_expression([term]), limit)
            self.postings.put(key, posting)
        return posting

    def _read_posting(self, expression: str, up_to: int | None) -> Posting:
        if up_to is not None:
            # Counting is ten times as fast as scoring.
            some = f"SELECT 1 FROM {self._table} WHERE {self._table} MATCH ? LIMIT {up_to + 1}"  # noqa: S608
            ((count,),) = self._rows(f"SELECT count(*) FROM ({some})", (expression,))  # noqa: S608
            if count > up_to:
                return EMPTY._replace(documents=count)
        rows, scores = array("q"), array("d")
        try:
            # A list of so many tuples would make the garbage collector run.
            for row, score in self._connection.execute(self._sql, (expression,)):
                rows.append(row)
                scores.append(score)
        except Exception as error:
            raise RetrievalError(self._name, error) from error
        if self._damping != 1 and rows:
            # The IDF of FTS5's bm25(), which has a floor for terms in more than half of the rows.
            rarity = (self.size() - len(rows) + 0.5) / (len(rows) + 0.5)
            idf = math.log(rarity) if rarity > 1 else _LEAST_IDF
            scores = array("d", [idf * (score / idf) ** self._damping for score in scores])
        return Posting(rows, scores, len(rows))

    def vocabulary(self) -> Vocabulary:
        """Return the terms of all columns, with the number of rows that contain each.

        They are read through a temporary table that is removed again. A connection that is set to
        `query_only` may write during that time, to its temporary database only.
        """
        return self.postings.cached_fact(("vocabulary", self._source), self._read_vocabulary)

    def _read_vocabulary(self) -> Vocabulary:
        # Threads may share a connection, and with it its temporary tables.
        view = f"toolrank_vocabulary_{get_ident()}"
        create = f"CREATE VIRTUAL TABLE temp.{view} USING fts5vocab (main, {self._table}, 'row')"
        ((query_only,),) = self._rows("PRAGMA query_only")
        if query_only:
            self._rows("PRAGMA query_only = 0")
        try:
            self._rows(create)
            try:
                return Vocabulary(dict(self._rows(f"SELECT term, doc FROM temp.{view}")))  # noqa: S608
            finally:
                self._rows(f"DROP TABLE temp.{view}")
        finally:
            if query_only:
                self._rows("PRAGMA query_only = 1")

    def similar(self, word: str, *, up_to: int) -> list[tuple[str, Posting]]:
        """Return the terms that an unknown word may mean, with their postings."""
        found = (self.stem_posting(term, up_to=up_to) for term in self.vocabulary().similar(word))
        return [(it.term, posting) for it, posting in filter(None, found)]

    def stem_posting(self, term: SimilarTerm, *, up_to: int) -> tuple[SimilarTerm, Posting] | None:
        """Return a term of the vocabulary in a form that is searched for, with its posting.

        Returns:
            None if no form of the term was found, or if too many rows contain it.
        """
        for form in forms(term.term):
            posting = self.posting(form, up_to=up_to)
            # A stem may itself have a shorter stem; another form leads to the term.
            if posting.documents == term.documents and posting.rows:
                return term._replace(term=form), posting
        return None

    def spellings(self, term: str) -> Sequence[str]:
        """Return the words that have this stem, as rows spell them, in lower case."""
        key = "spellings", self._source, term
        return self.postings.cached_fact(key, lambda: self._read_spellings(term))

    def _read_spellings(self, term: str) -> list[str]:
        sql = (
            f"SELECT snippet({self._table}, -1, char(2), char(3), '', 1) "  # noqa: S608
            f"FROM {self._table} WHERE {self._table} MATCH ? LIMIT {_SPELLINGS_READ}"
        )
        found = [row[0] or "" for row in self._rows(sql, (match_expression([term]),))]
        marked = [text.partition("\2")[2].partition("\3")[0].lower() for text in found]
        return [word for word in marked if word]

    @property
    def ids(self) -> dict[int, str]:
        """The ids of rows that are known, filled as rows are found."""
        return self.postings.cached_fact(("ids", self._source), dict[int, str])

    def rows_of(self, ids: Iterable[str]) -> dict[str, int]:
        """Return the rows that have some ids; an id that no row has is left out."""
        if (content := self._content) is None:
            return {id_: int(id_) for id_ in ids if id_.isascii() and id_.isdecimal()}
        known = self.postings.cached_fact(("rows", self._source), dict[str, int])
        ids = [*ids]
        if missing := [id_ for id_ in ids if id_ not in known]:
            sql = (
                f"SELECT {content.column}, rowid FROM {content.table} "  # noqa: S608
                f"WHERE {content.column} IN (SELECT value FROM json_each(?))"
            )
            known.update((str(id_), row) for id_, row in self._rows(sql, (json_array(missing),)))
        return {id_: known[id_] for id_ in ids if id_ in known}

    def hits(self, weighted: Sequence[tuple[Posting, float]], *, depth: int) -> list[Hit]:
        """Return the best rows by the sum of their postings' scores, best first."""
        allowed: Set[int] | None = None
        if weighted and (where := self._where) is not None:
            allowed = where.rows
            if allowed is None:
                allowed = {row for (row,) in self._rows(where.sql, where.parameters)}
        best = best_sums(weighted, depth=depth, allowed=allowed)
        ids = self.ids
        if missing := [row for row in best if row not in ids]:
            ids.update(self._read_ids(missing))
        ranked = sorted([(-score, ids[row]) for row, score in best.items() if row in ids])
        return [Hit(id_, -cost) for cost, id_ in ranked[:depth]]

    def _read_ids(self, rows: Collection[int]) -> dict[int, str]:
        if self._content is None:
            return {row: str(row) for row in rows}
        found = self._rows(self._sql_of_ids, (json_array(rows),))
        return {row: str(id_) for row, id_ in found}

    def _rows(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        try:
            return list(self._connection.execute(sql, parameters))
        except Exception as error:
            # Each driver has its own errors, without a common base class below Exception.
            raise RetrievalError(self._name, error) from error


def ids_of_rows(content: IdColumn) -> str:
    """Return the SELECT of rows with their ids, given a JSON array of rows."""
    table = identifier(content.table, argument="content.table")
    column = identifier(content.column, argument="content.column")
    return f"SELECT rowid, {column} FROM {table} WHERE rowid IN (SELECT value FROM json_each(?))"  # noqa: S608
