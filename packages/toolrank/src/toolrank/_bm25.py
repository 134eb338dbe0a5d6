"""Lexical retrieval: BM25 over a full-text table."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from toolrank._query import match_expression, query_terms
from toolrank._records import Filter, Hit, Query
from toolrank._sql import Content, best_first, identifier
from toolrank._weights import check_weight
from toolrank.errors import RetrievalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolrank.protocols import Connection

__all__ = ["BM25Retriever"]


class BM25Retriever:
    """Rank the rows of an FTS5 table by BM25.

    The formula is that of Robertson & Zaragoza (2009) with SQLite's k1 = 1.2, b = 0.75.
    Any query string is safe: its terms are quoted and OR-ed, so that a request in plain
    language finds rows that hold only some of its words.

    Args:
        connection: An open `sqlite3` or `apsw` connection.
        table: The FTS5 table.
        weights: One weight a column, in the table's order; empty weighs all alike.
        content: Where hits get their ids; without it an id is the rowid in digits.
        where: The rows to search among.
        name: What to call this retriever in contributions.

    Raises:
        RankingArgumentError: A table name that is not plain, or a weight that is negative or
            not finite.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        table: str,
        weights: Sequence[float] = (),
        content: Content | None = None,
        where: Filter | None = None,
        name: str = "bm25",
    ) -> None:
        for position, weight in enumerate(weights):
            check_weight(weight, of=f"column {position}", argument="weights")
        self._connection = connection
        self._sql = _statement(table, tuple(weights), content, where.sql if where else None)
        self._where_parameters = where.parameters if where else ()
        self._name = name

    @property
    def name(self) -> str:
        """The name given at construction."""
        return self._name

    def retrieve(self, query: Query, *, depth: int) -> list[Hit]:
        """Give the best `depth` rows that hold any of the query's terms.

        Scores are BM25 scores, zero or more, higher is better.

        Raises:
            RetrievalError: The table is missing or is no FTS5 table.
        """
        expression = match_expression(query_terms(query.text))
        if not expression:
            return []
        parameters = (expression, *self._where_parameters, depth)
        try:
            rows = list(self._connection.execute(self._sql, parameters))
        except Exception as error:
            # Each driver has errors of its own, with no common root below Exception.
            raise RetrievalError(self._name, error) from error
        return best_first(Hit(id=str(row[0]), score=-float(row[1])) for row in rows)


@lru_cache(maxsize=64)
def _statement(
    table: str, weights: tuple[float, ...], content: Content | None, where: str | None
) -> str:
    identifier(table, argument="table")
    arguments = ", ".join([table, *(repr(float(weight)) for weight in weights)])
    # The + keeps SQLite from searching once for each allowed row.
    allowed = f"AND +rowid IN ({where}) " if where else ""
    # bm25() written out is faster than ORDER BY rank; the inner LIMIT keeps the join small.
    best = (
        f"SELECT rowid AS row, bm25({arguments}) AS cost FROM {table} "  # noqa: S608
        f"WHERE {table} MATCH ? {allowed}ORDER BY cost, rowid LIMIT ?"
    )
    if content is None:
        return best
    return (
        f"SELECT content.{content.column}, best.cost FROM ({best}) AS best "  # noqa: S608
        f"JOIN {content.table} AS content ON content.rowid = best.row"
    )
