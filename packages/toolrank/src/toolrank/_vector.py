"""Semantic retrieval: exact nearest neighbours over a table of sqlite-vec."""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING

from toolrank._arguments import identifier
from toolrank._records import Hit
from toolrank.errors import RankingArgumentError, RetrievalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolrank._records import Filter, IdColumn
    from toolrank.protocols import Connection

# The most that sqlite-vec gives in one search.
_MAX_NEIGHBOURS = 4096


class VectorRetriever:
    """Rank the rows of a sqlite-vec `vec0` table by cosine similarity to a vector.

    Args:
        connection: An open connection with sqlite-vec loaded.
        table: The `vec0` table, its vector column declared with `distance_metric=cosine`.
        column: The vector column.
        content: Where hits get their ids; without it an id is the rowid in digits.
        where: The rows to search among.

    Raises:
        RankingArgumentError: A table or column name that is not plain.
    """

    def __init__(
        self,
        connection: Connection,
        table: str,
        *,
        column: str = "embedding",
        content: IdColumn | None = None,
        where: Filter | None = None,
    ) -> None:
        identifier(table, argument="vectors")
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

    def nearest(
        self, vector: Sequence[float], /, *, depth: int, then: Sequence[Sequence[float]] = ()
    ) -> list[Hit]:
        """Return the `depth` rows (at most 4096) nearest to a vector.

        Scores are cosine similarities in [-1, 1]. A vector of zeros, which has no direction, finds
        nothing, and a row without a direction is not found.

        Raises:
            RankingArgumentError: The vector holds a value that is not finite.
            RetrievalError: The table is missing, or the dimensions differ.
        """
        if not any(vector):
            return []
        if not all(map(math.isfinite, vector)):
            raise RankingArgumentError("vector", "it holds a value that is not finite")
        # Scaled so that no value overflows.
        largest = max(map(abs, vector))
        blob = array("f", [value / largest for value in vector]).tobytes()
        parameters = (blob, min(depth, _MAX_NEIGHBOURS), *self._where_parameters)
        try:
            rows = list(self._connection.execute(self._sql, parameters))
        except Exception as error:
            # Each driver has its own errors, without a common base class below Exception.
            raise RetrievalError("vector", error) from error
        hits = (Hit(str(id_), 1.0 - float(distance)) for id_, distance in rows)
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))
