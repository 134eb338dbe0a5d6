"""Semantic retrieval: exact nearest neighbours by matrix products over a vector table's chunks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from toolrank._records import Filter, Hit, Query
from toolrank._sql import Content, best_first, identifier
from toolrank.errors import RankingArgumentError, RetrievalError

if TYPE_CHECKING:
    import numpy as np

    from toolrank.protocols import Connection

__all__ = ["NumpyVectorRetriever"]


class NumpyVectorRetriever:
    """Rank the rows of a sqlite-vec `vec0` table by cosine similarity, some times faster.

    sqlite-vec computes one distance after the other and sorts every chunk; this multiplies the
    chunks that it stores, all of them, so the hits are the true nearest. It wants numpy (the
    extra `numpy`), whose import takes as long as some twenty searches: for one search,
    `VectorRetriever` is the better choice. It reads the tables in which sqlite-vec 0.1 keeps
    its chunks.

    Args:
        connection: An open connection.
        table: The `vec0` table; its first vector column is searched.
        unit_length: Whether every row is known to have length 1, which saves half the time.
        content: Where hits get their ids; without it an id is the rowid in digits.
        where: The rows to search among.
        name: What to call this retriever in contributions.

    Raises:
        ModuleNotFoundError: numpy is not installed.
        RankingArgumentError: A table name that is not plain.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        table: str,
        unit_length: bool = False,
        content: Content | None = None,
        where: Filter | None = None,
        name: str = "vector",
    ) -> None:
        # Where it is used, not where it is defined: the package works without.
        import numpy as np

        identifier(table, argument="table")
        self._np = np
        self._connection = connection
        self._sql = (
            f"SELECT c.validity, c.rowids, v.vectors FROM {table}_chunks AS c "  # noqa: S608
            f"JOIN {table}_vector_chunks00 AS v ON v.rowid = c.chunk_id"
        )
        self._unit_length = unit_length
        self._content = content
        self._where = where
        self._name = name

    @property
    def name(self) -> str:
        """The name given at construction."""
        return self._name

    def retrieve(self, query: Query, *, depth: int) -> list[Hit]:
        """Give the `depth` rows nearest to the query's vector.

        Scores are cosine similarities in [-1, 1]. A query without a vector, or with one of
        zeros, which has no direction, finds nothing; a row without a direction is not found.

        Raises:
            RankingArgumentError: The query's vector holds a value that is not finite.
            RetrievalError: The table is missing, or the dimensions differ.
        """
        np = self._np
        if query.vector is None or not len(query.vector):
            return []
        # In double precision, so that no finite vector is too long.
        vector = np.asarray(query.vector, dtype=np.float64)
        if not np.isfinite(vector).all():
            raise RankingArgumentError("query.vector", "it holds a value that is not finite")
        if not vector.any():
            return []
        vector = vector / np.abs(vector).max()
        unit = (vector / np.linalg.norm(vector)).astype(np.float32)
        try:
            return self._hits(*self._scored(unit), depth)
        except Exception as error:
            # Each driver has errors of its own, with no common root below Exception.
            raise RetrievalError(self._name, error) from error

    def _scored(self, unit: np.ndarray[Any, Any]) -> tuple[Any, Any]:
        """Give every row's id and its cosine, -inf where it is not to be found."""
        np = self._np
        validity, rowids, scores = [], [], []
        for chunk_validity, chunk_rowids, vectors in self._connection.execute(self._sql, ()):
            matrix = np.frombuffer(vectors, dtype="<f4").reshape(len(chunk_rowids) // 8, -1)
            validity.append(chunk_validity)
            rowids.append(chunk_rowids)
            scores.append(self._cosines(matrix, unit))
        if not scores:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        ids = np.frombuffer(b"".join(rowids), dtype="<i8")
        bits = np.frombuffer(b"".join(validity), dtype=np.uint8)
        cosines = np.concatenate(scores)
        found = np.unpackbits(bits, bitorder="little").view(bool) & np.isfinite(cosines)
        if self._where is not None:
            found &= np.isin(ids, self._allowed(self._where))
        return ids[found], np.clip(cosines[found], -1.0, 1.0)

    def _cosines(self, matrix: Any, unit: Any) -> Any:  # noqa: ANN401
        np = self._np
        if self._unit_length:
            return matrix @ unit
        # In double precision, so that no row is too long; one of zeros gives NaN.
        rows = matrix.astype(np.float64)
        with np.errstate(invalid="ignore"):
            return ((rows @ unit) / np.linalg.norm(rows, axis=1)).astype(np.float32)

    def _allowed(self, where: Filter) -> np.ndarray[Any, Any]:
        # As one text: to make a number of every row takes longer than to parse them all.
        sql = f"WITH allowed (row) AS ({where.sql}) SELECT group_concat(row) FROM allowed"  # noqa: S608
        ((rows,),) = self._connection.execute(sql, where.parameters)
        return self._np.fromstring(rows or "", dtype=self._np.int64, sep=",")

    def _hits(self, rowids: Any, scores: Any, depth: int) -> list[Hit]:  # noqa: ANN401
        np = self._np
        if len(scores) > depth:
            # All that are as good as the last one: which of them stay, their ids decide.
            last = np.partition(scores, len(scores) - depth)[len(scores) - depth]
            rowids, scores = rowids[scores >= last], scores[scores >= last]
        ids = self._ids(rowids.tolist())
        hits = (
            Hit(id=ids[rowid], score=score)
            for rowid, score in zip(rowids.tolist(), scores.tolist(), strict=True)
            if rowid in ids
        )
        return best_first(hits)[:depth]

    def _ids(self, rowids: list[int]) -> dict[int, str]:
        if self._content is None:
            return {rowid: str(rowid) for rowid in rowids}
        sql = (
            f"SELECT rowid, {self._content.column} FROM {self._content.table} "  # noqa: S608
            "WHERE rowid IN (SELECT value FROM json_each(?))"
        )
        rows = self._connection.execute(sql, (json.dumps(rowids),))
        return {row[0]: str(row[1]) for row in rows}
