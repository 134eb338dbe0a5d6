"""Semantic retrieval: exact nearest neighbours over a vector table."""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING

from toolrank._records import Filter, Hit, Query
from toolrank._sql import IdColumn, best_first, identifier
from toolrank.errors import RankingArgumentError, RetrievalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolrank.protocols import Connection

# The most that sqlite-vec gives in one search.
_MAX_NEIGHBOURS = 4096


class VectorRetriever:
    """Rank the rows of a sqlite-vec `vec0` table by cosine similarity to the query's vector.

    Args:
        connection: An open connection with sqlite-vec loaded.
        table: The `vec0` table, its vector column declared with `distance_metric=cosine`.
        column: The vector column.
        content: Where hits get their ids; without it an id is the rowid in digits.
        where: The rows to search among.
        name: Its name in contributions.

    Raises:
        RankingArgumentError: A table or column name that is not plain.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        table: str,
        column: str = "embedding",
        content: IdColumn | None = None,
        where: Filter | None = None,
        name: str = "vector",
    ) -> None:
        identifier(table, argument="table")
        identifier(column, argument="column")
        allowed = f" AND rowid IN ({where.sql})" if where else ""
        # A row of zeros or of NaN has no distance, and comes first unless a bound keeps it out;
        # the distance of opposite vectors is 2.
        self._sql = (
            f"SELECT rowid AS row, distance FROM {table} "  # noqa: S608
            f"WHERE {column} MATCH ? AND k = ? AND distance < 3{allowed} ORDER BY distance"
        )
        if content is not None:
            self._sql = (
                f"SELECT content.{content.column}, nearest.distance FROM ({self._sql}) AS nearest "  # noqa: S608
                f"JOIN {content.table} AS content ON content.rowid = nearest.row"
            )
        self._connection = connection
        self._where_parameters = where.parameters if where else ()
        self._name = name

    @property
    def name(self) -> str:
        """The name given at construction."""
        return self._name

    def retrieve(self, query: Query, *, depth: int) -> list[Hit]:
        """Return the `depth` rows (at most 4096) nearest to the query's vector.

        Scores are cosine similarities in [-1, 1]. A query without a vector, or with one of
        zeros, which has no direction, finds nothing; a row without a direction is not found.

        Raises:
            RankingArgumentError: The query's vector holds a value that is not finite.
            RetrievalError: The table is missing, or the dimensions differ.
        """
        if query.vector is None or not any(query.vector):
            return []
        parameters = (_blob(query.vector), min(depth, _MAX_NEIGHBOURS), *self._where_parameters)
        try:
            rows = list(self._connection.execute(self._sql, parameters))
        except Exception as error:
            # Each driver has its own errors, without a common base class below Exception.
            raise RetrievalError(self._name, error) from error
        return best_first(Hit(id=str(row[0]), score=1.0 - float(row[1])) for row in rows)


def _blob(vector: Sequence[float]) -> bytes:
    """Return a vector as float32, scaled so that no value overflows."""
    if not all(map(math.isfinite, vector)):
        raise RankingArgumentError("query.vector", "it holds a value that is not finite")
    largest = max(map(abs, vector))
    return array("f", [value / largest for value in vector]).tobytes()
