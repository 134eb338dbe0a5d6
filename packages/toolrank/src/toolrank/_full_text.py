"""Reading an FTS5 table term by term."""

from __future__ import annotations

from array import array
from threading import get_ident
from typing import TYPE_CHECKING, Any

from toolrank._checks import check_weight
from toolrank._postings import Posting
from toolrank._query import match_expression
from toolrank._sql import identifier, rows_of_keys

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping, Sequence, Set

    from toolrank._records import Filter
    from toolrank._sql import IdColumn
    from toolrank.protocols import Connection

_SPELLINGS_READ = 16


class FullTextTable:
    """An FTS5 table as a `Lexicon`: each call runs a statement, and nothing is kept.

    Args:
        connection: An open `sqlite3` or `apsw` connection.
        table: The table, in the schema `main`.
        weights: One weight per column, in the table's order; empty weights all equally.
        content: Where rows get their ids; without it an id is the rowid in digits.

    Raises:
        RankingArgumentError: A table name that is not plain, or a weight that is negative or not
            finite.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        table: str,
        weights: Sequence[float] = (),
        content: IdColumn | None = None,
    ) -> None:
        for position, weight in enumerate(weights):
            check_weight(weight, of=f"column {position}", argument="weights")
        self._connection = connection
        self._table = identifier(table, argument="table")
        self._weights = tuple(map(float, weights))
        self._content = content
        arguments = ", ".join([table, *map(repr, self._weights)])
        # bm25() written out is faster than the column `rank`.
        self._sql = f"SELECT rowid, -bm25({arguments}) FROM {table} WHERE {table} MATCH ?"  # noqa: S608

    @property
    def source(self) -> Hashable:
        """The table, and where its rows get their ids."""
        return self._table, self._content

    @property
    def weights(self) -> tuple[float, ...]:
        """The weights of the columns."""
        return self._weights

    def size(self) -> int:
        """Return the number of rows."""
        try:
            # If this table exists, reading it is a thousand times faster than counting.
            ((count,),) = self._rows(f"SELECT count(*) FROM {self._table}_docsize", ())  # noqa: S608
        except Exception:  # noqa: BLE001 - drivers' errors have no common root
            ((count,),) = self._rows(f"SELECT count(*) FROM {self._table}", ())  # noqa: S608
        return int(count)

    def posting(self, term: str, *, up_to: int | None = None) -> Posting:
        """Return the rows that contain a term, or a phrase of several words."""
        expression = match_expression([term])
        if up_to is not None:
            # Counting is ten times as fast as scoring.
            some = f"SELECT 1 FROM {self._table} WHERE {self._table} MATCH ? LIMIT {up_to + 1}"  # noqa: S608
            ((count,),) = self._rows(f"SELECT count(*) FROM ({some})", (expression,))  # noqa: S608
            if count > up_to:
                return Posting(rows=array("q"), scores=array("d"), documents=count)
        rows, scores = array("q"), array("d")
        # A list of so many tuples would make the garbage collector run.
        for row, score in self._connection.execute(self._sql, (expression,)):
            rows.append(row)
            scores.append(score)
        return Posting(rows=rows, scores=scores, documents=len(rows))

    def vocabulary(self) -> Mapping[str, int]:
        """Return the terms of all columns, with the number of rows that contain each.

        They are read through a temporary table that is removed again. A connection that is set to
        `query_only` may write during that time, to its temporary database only.
        """
        # Threads may share a connection, and with it its temporary tables.
        view = f"toolrank_vocabulary_{get_ident()}"
        create = f"CREATE VIRTUAL TABLE temp.{view} USING fts5vocab (main, {self._table}, 'row')"
        ((query_only,),) = self._rows("PRAGMA query_only", ())
        if query_only:
            self._rows("PRAGMA query_only = 0", ())
        try:
            self._rows(create, ())
            try:
                return dict(self._rows(f"SELECT term, doc FROM temp.{view}", ()))  # noqa: S608
            finally:
                self._rows(f"DROP TABLE temp.{view}", ())
        finally:
            if query_only:
                self._rows("PRAGMA query_only = 1", ())

    def spellings(self, term: str) -> list[str]:
        """Return the words that have this stem, as rows spell them, in lower case."""
        sql = (
            f"SELECT snippet({self._table}, -1, char(2), char(3), '', 1) "  # noqa: S608
            f"FROM {self._table} WHERE {self._table} MATCH ? LIMIT {_SPELLINGS_READ}"
        )
        found = [row[0] or "" for row in self._rows(sql, (match_expression([term]),))]
        marked = [text.partition("\2")[2].partition("\3")[0].lower() for text in found]
        return [word for word in marked if word]

    def ids(self, rows: Collection[int]) -> dict[int, str]:
        """Return the ids of rows, without rows that the content table lacks."""
        if self._content is None:
            return {row: str(row) for row in rows}
        sql = (
            f"SELECT rowid, {self._content.column} FROM {self._content.table} "  # noqa: S608
            "WHERE rowid IN (SELECT value FROM json_each(?))"
        )
        return {row: str(id_) for row, id_ in rows_of_keys(self._connection, sql, rows)}

    def rows_of(self, ids: Collection[str]) -> dict[str, int]:
        """Return the rows that have some ids; an id that no row has is left out."""
        if self._content is None:
            return {id_: int(id_) for id_ in ids if id_.isascii() and id_.isdecimal()}
        sql = (
            f"SELECT {self._content.column}, rowid FROM {self._content.table} "  # noqa: S608
            f"WHERE {self._content.column} IN (SELECT value FROM json_each(?))"
        )
        return {str(id_): row for id_, row in rows_of_keys(self._connection, sql, ids)}

    def allowed(self, where: Filter) -> Set[int]:
        """Return the rows that match a filter."""
        return {row for (row,) in self._rows(where.sql, where.parameters)}

    def _rows(self, sql: str, parameters: tuple[Any, ...]) -> list[Any]:
        return list(self._connection.execute(sql, parameters))
