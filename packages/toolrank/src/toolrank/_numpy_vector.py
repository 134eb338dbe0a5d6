"""Semantic retrieval: exact nearest neighbours by matrix products over a vector table's chunks."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from toolrank._byte_matrix import ByteMatrix, byte_matrix, may_be_nearest, products
from toolrank._records import Filter, Hit, Query
from toolrank._sql import Content, identifier, rows_of_keys
from toolrank.errors import RankingArgumentError, RetrievalError

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    import numpy as np

    from toolrank.protocols import Connection

_PORTION = 4_096
_VECTOR_COLUMN = re.compile(r"\b(float|f32|int8|i8|bit)\s*\[", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class VectorRows:
    """Vectors in ordinary rows, for a connection on which sqlite-vec cannot be loaded.

    Attributes:
        sql: A SELECT of an integer, as the rowid of a vector table would be, and of a vector in
            little-endian float32, all of one length.
        parameters: Its parameters.
    """

    sql: str
    parameters: Sequence[Any] = ()


class VectorMatrix(NamedTuple):
    """A vector table in memory: one row for each of its rows.

    Attributes:
        rowids: int64, of shape (rows,).
        vectors: float32, of shape (rows, dimensions).
        ids: The ids of rows that have been hits, filled in as they are found.
    """

    rowids: np.ndarray[Any, Any]
    vectors: np.ndarray[Any, Any]
    ids: dict[int, str]


class NumpyVectorRetriever:
    """Rank the rows of a sqlite-vec `vec0` table by cosine similarity, several times faster.

    sqlite-vec computes one distance at a time and sorts every chunk; this class multiplies all the
    chunks that sqlite-vec stores, so the search is exact. It needs numpy (the extra `numpy`), whose
    import takes as long as about twenty searches: for a single search, use `VectorRetriever`. It
    reads the tables in which sqlite-vec 0.1 keeps its chunks.

    Args:
        connection: An open connection.
        table: The `vec0` table, whose first vector column is searched; or ordinary rows with
            vectors, all of which are read for each search without a `matrix`.
        unit_length: Whether every row is known to have length 1, which saves half the time.
        content: Where hits get their ids; without it an id is the rowid in digits.
        where: The rows to search among.
        matrix: What `read_matrix` or `read_bytes` returned, if the table has not changed since.
            The first halves the time of a search and needs the table's size in memory; the second
            needs a quarter of that memory, and a few more reads. The hits are the same.
        name: Its name in contributions.

    Raises:
        ModuleNotFoundError: numpy is not installed.
        RankingArgumentError: A table name that is not plain.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        table: str | VectorRows,
        unit_length: bool = False,
        content: Content | None = None,
        where: Filter | None = None,
        matrix: VectorMatrix | ByteMatrix | None = None,
        name: str = "vector",
    ) -> None:
        try:
            # Imported where it is used, because the package works without it.
            import numpy as np
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f'{error}; install "toolrank-hybrid[numpy]"', name=error.name
            ) from error

        if isinstance(table, str):
            identifier(table, argument="table")
        self._np = np
        self._connection = connection
        self._table = table
        self._unit_length = unit_length
        self._content = content
        self._where = where
        self._matrix = matrix
        self._name = name
        self._ready: dict[bytes, Any] = {}

    @property
    def name(self) -> str:
        """The name given at construction."""
        return self._name

    def read_matrix(self) -> VectorMatrix:
        """Read the table into memory, for retrievers made while it does not change.

        Raises:
            RetrievalError: The table is missing.
        """
        try:
            portions = list(self._portions())
        except Exception as error:
            raise RetrievalError(self._name, error) from error
        if not portions:
            return self._empty()
        rowids, _, vectors = map(self._np.concatenate, zip(*portions, strict=True))
        return VectorMatrix(rowids, vectors, {})

    def read_bytes(self) -> ByteMatrix:
        """Read the table into memory with a byte for each dimension.

        What a search finds with it is looked up in the table once more, so it must not change.

        Raises:
            RetrievalError: The table is missing.
        """
        try:
            return byte_matrix(self._portions())
        except Exception as error:
            raise RetrievalError(self._name, error) from error

    def _portions(self) -> Generator[tuple[Any, Any, Any]]:
        """Yield the rowids, the places and the vectors of each part of the table."""
        np = self._np
        if isinstance(self._table, VectorRows):
            found = iter(self._connection.execute(self._table.sql, self._table.parameters))
            while rows := list(islice(found, _PORTION)):
                rowids, vectors = self._of_rows(rows)
                yield rowids, rowids, vectors
            return
        self._refuse_other_columns()
        sql = f"SELECT chunk_id, validity, rowids FROM {self._table}_chunks"  # noqa: S608
        chunks = list(self._connection.execute(sql, ()))
        if not chunks:
            return
        size = len(chunks[0][2]) // 8
        with closing(self._matrices([chunk[0] for chunk in chunks], rows=size)) as matrices:
            for (number, validity, rowids), matrix in zip(chunks, matrices, strict=True):
                bits = np.frombuffer(validity, dtype=np.uint8)
                held = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
                yield np.frombuffer(rowids, dtype="<i8")[held], number * size + held, matrix[held]

    def retrieve(self, query: Query, *, depth: int) -> list[Hit]:
        """Return the `depth` rows nearest to the query's vector.

        Scores are cosine similarities in [-1, 1]. A query without a vector, or with one of
        zeros, which has no direction, finds nothing; a row without a direction is not found.
        With a matrix, the vectors of the query's parts are multiplied at the same time, which
        takes half the time: ask for the parts next.

        Raises:
            RankingArgumentError: The query's vector holds a value that is not finite.
            RetrievalError: The table is missing, or the dimensions differ.
        """
        np = self._np
        if query.vector is None:
            return []
        if not np.isfinite(query.vector).all():
            raise RankingArgumentError("query.vector", "it holds a value that is not finite")
        if (unit := self._unit(query)) is None:
            return []
        try:
            return self._hits(*self._scored(unit, query.parts, depth), depth)
        except Exception as error:
            # Each driver has its own errors, without a common base class below Exception.
            raise RetrievalError(self._name, error) from error

    def _unit(self, query: Query) -> Any:  # noqa: ANN401
        """Return a query's vector with the length 1; None if it has no direction."""
        np = self._np
        # Computed in double precision, so that no finite vector overflows.
        vector = np.asarray([] if query.vector is None else query.vector, dtype=np.float64)
        if not vector.any() or not np.isfinite(vector).all():
            return None
        vector = vector / np.abs(vector).max()
        return (vector / np.linalg.norm(vector)).astype(np.float32)

    def _scored(
        self, unit: np.ndarray[Any, Any], parts: Sequence[Query], depth: int
    ) -> tuple[Any, Any]:
        """Return the ids of the rows that may be found, and their cosines."""
        np = self._np
        matrix = self._matrix
        if isinstance(matrix, ByteMatrix):
            return self._scored_again(matrix, unit, parts, depth)
        if matrix is None and isinstance(self._table, VectorRows):
            matrix = self._read_rows(self._table)
        if matrix is not None and not len(matrix.rowids):
            return matrix.rowids, np.empty(0, dtype=np.float32)
        if matrix is not None:
            cosines = (
                self._products(matrix.vectors, unit, parts)
                if self._unit_length
                else self._cosines(matrix.vectors, unit)
            )
            return self._among_allowed(matrix.rowids, cosines, np.isfinite(cosines))
        self._refuse_other_columns()
        sql = f"SELECT chunk_id, validity, rowids FROM {self._table}_chunks"  # noqa: S608
        chunks = list(self._connection.execute(sql, ()))
        if not chunks:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        numbers, validity, rowids = zip(*chunks, strict=True)
        ids = np.frombuffer(b"".join(rowids), dtype="<i8")
        bits = np.frombuffer(b"".join(validity), dtype=np.uint8)
        with closing(self._matrices(numbers, rows=len(rowids[0]) // 8)) as matrices:
            cosines = np.concatenate([self._cosines(matrix, unit) for matrix in matrices])
        found = np.unpackbits(bits, bitorder="little").view(bool) & np.isfinite(cosines)
        return self._among_allowed(ids, cosines, found)

    def _products(self, values: Any, unit: Any, parts: Sequence[Query]) -> Any:  # noqa: ANN401
        """Multiply a matrix with a vector, and with those of parts for their own searches."""
        cosines = self._ready.pop(unit.tobytes(), None)
        if cosines is None:
            others = [each for each in map(self._unit, parts) if each is not None]
            cosines, *ready = products(values, [unit, *others])
            self._ready = {other.tobytes(): its for other, its in zip(others, ready, strict=True)}
        return cosines

    def _scored_again(
        self,
        matrix: ByteMatrix,
        unit: np.ndarray[Any, Any],
        parts: Sequence[Query],
        depth: int,
    ) -> tuple[Any, Any]:
        """Choose candidates by their bytes, then compute exact scores from their stored vectors."""
        np = self._np
        allowed = None if self._where is None else self._allowed(self._where)
        if not len(matrix.rowids):
            return matrix.rowids, matrix.errors
        cosines = self._products(matrix.values, unit, parts) * matrix.scales
        best, others = may_be_nearest(matrix, cosines, depth, allowed)
        rowids, scores = self._exact(matrix, best, unit)
        if len(others):
            # The scores of the best ones rule out most others.
            may_pass = cosines[others] + matrix.errors[others] >= min(scores.min(), 1.0)
            more, theirs = self._exact(matrix, others[may_pass], unit)
            rowids, scores = np.concatenate([rowids, more]), np.concatenate([scores, theirs])
        return rowids, scores

    def _exact(self, matrix: ByteMatrix, chosen: Any, unit: Any) -> tuple[Any, Any]:  # noqa: ANN401
        """Return the ids of some rows, and the cosines of their stored vectors."""
        if not len(chosen):
            return matrix.rowids[chosen], matrix.errors[chosen]
        chosen = chosen[self._np.argsort(matrix.places[chosen])]
        if isinstance(self._table, VectorRows):
            sql = (
                f"WITH held (row, vector) AS ({self._table.sql}) SELECT row, vector FROM held "  # noqa: S608
                "WHERE row IN (SELECT value FROM json_each(?))"
            )
            before, keys = (*self._table.parameters,), matrix.rowids[chosen].tolist()
            found = rows_of_keys(self._connection, sql, keys, before=before)
            rowids, vectors = self._of_rows(found)
        else:
            rowids = matrix.rowids[chosen]
            vectors = self._vectors_at(matrix.places[chosen], matrix.values.shape[1])
        return rowids, self._cosines(vectors, unit)

    def _vectors_at(self, places: Any, dimensions: int) -> Any:  # noqa: ANN401
        """Read single vectors of the table, whose places are in order."""
        np = self._np
        sql = f"SELECT length(rowids) / 8 FROM {self._table}_chunks LIMIT 1"  # noqa: S608
        ((size,),) = self._connection.execute(sql, ())
        vectors = np.empty((len(places), dimensions), dtype="<f4")
        numbers, rows = np.divmod(places, size)
        open_blob = getattr(self._connection, "blob_open", None)
        if open_blob is None:
            for number in np.unique(numbers):
                with closing(self._matrices([int(number)], rows=size)) as matrices:
                    vectors[numbers == number] = next(matrices)[rows[numbers == number]]
            return vectors
        table, last = f"{self._table}_vector_chunks00", int(numbers[0])
        with open_blob("main", table, "vectors", last, False) as blob:
            for vector, number, row in zip(vectors, numbers.tolist(), rows.tolist(), strict=True):
                if number != last:
                    blob.reopen(number)
                    last = number
                blob.seek(4 * dimensions * row)
                blob.read_into(vector)
        return vectors

    def _among_allowed(self, ids: Any, cosines: Any, found: Any) -> tuple[Any, Any]:  # noqa: ANN401
        np = self._np
        if self._where is not None:
            found &= np.isin(ids, self._allowed(self._where))
        return (ids, cosines) if found.all() else (ids[found], cosines[found])

    def _read_rows(self, rows: VectorRows) -> VectorMatrix:
        found = list(self._connection.execute(rows.sql, rows.parameters))
        return VectorMatrix(*self._of_rows(found), {}) if found else self._empty()

    def _of_rows(self, rows: Sequence[Sequence[Any]]) -> tuple[Any, Any]:
        np = self._np
        rowids, blobs = zip(*rows, strict=True)
        vectors = np.frombuffer(b"".join(blobs), dtype="<f4").reshape(len(blobs), -1)
        return np.array(rowids, dtype=np.int64), vectors

    def _empty(self) -> VectorMatrix:
        np = self._np
        return VectorMatrix(np.empty(0, dtype=np.int64), np.empty((0, 0), dtype=np.float32), {})

    def _refuse_other_columns(self) -> None:
        """Refuse columns of bytes or bits, which would be read as floats if their sizes fit."""
        sql = "SELECT sql FROM sqlite_schema WHERE name = ?"
        found = next(iter(self._connection.execute(sql, (self._table,))), ("",))
        kind = _VECTOR_COLUMN.search(str(found[0]))
        if kind is None or not kind[1].lower().startswith("f"):
            raise LookupError(f"{self._table} is not a vec0 table whose first vectors are float32")

    def _matrices(self, numbers: Sequence[int], *, rows: int) -> Generator[Any]:
        """Yield the vectors of each chunk; a matrix is good until the next one is asked for."""
        np = self._np
        vectors = f"{self._table}_vector_chunks00"
        open_blob = getattr(self._connection, "blob_open", None)
        if open_blob is None:
            sql = f"SELECT vectors FROM {vectors} WHERE rowid = ?"  # noqa: S608
            for number in numbers:
                ((stored,),) = self._connection.execute(sql, (number,))
                yield np.frombuffer(stored, dtype="<f4").reshape(rows, -1)
            return
        # apsw reads into memory that is already allocated, and stays in the processor's cache.
        with open_blob("main", vectors, "vectors", numbers[0], False) as blob:
            matrix = np.empty((rows, blob.length() // (4 * rows)), dtype="<f4")
            for number in numbers:
                blob.reopen(number)
                blob.read_into(matrix)
                yield matrix

    def _cosines(self, matrix: Any, unit: Any) -> Any:  # noqa: ANN401
        np = self._np
        # Multiply row by row: a product of the whole matrix wakes all cores, whose threads then
        # busy-wait for much longer than they save.
        if self._unit_length:
            return np.vecdot(matrix, unit)
        # Computed in double precision, so that no row overflows; a row of zeros becomes NaN.
        rows = matrix.astype(np.float64)
        with np.errstate(invalid="ignore"):
            return (np.vecdot(rows, unit) / np.linalg.norm(rows, axis=1)).astype(np.float32)

    def _allowed(self, where: Filter) -> np.ndarray[Any, Any]:
        if where.rows is not None:
            return self._np.fromiter(where.rows, dtype=self._np.int64, count=len(where.rows))
        # Passed as one text, because creating a number for each row takes longer than parsing the
        # text.
        sql = f"WITH allowed (row) AS ({where.sql}) SELECT group_concat(row) FROM allowed"  # noqa: S608
        ((rows,),) = self._connection.execute(sql, where.parameters)
        return self._np.fromstring(rows or "", dtype=self._np.int64, sep=",")

    def _hits(self, rowids: Any, scores: Any, depth: int) -> list[Hit]:  # noqa: ANN401
        np = self._np
        if len(scores) > depth:
            # Keep all that are as good as the last one; their ids decide later.
            last = np.partition(scores, len(scores) - depth)[len(scores) - depth]
            (best,) = np.nonzero(scores >= min(last, 1.0))
            rowids, scores = rowids[best], scores[best]
        rows, costs = rowids.tolist(), np.clip(-scores, -1.0, 1.0).tolist()
        ids = self._ids(rows)
        ranked = sorted(
            [(cost, ids[row]) for row, cost in zip(rows, costs, strict=True) if row in ids]
        )
        return [Hit(id_, -cost) for cost, id_ in ranked[:depth]]

    def _ids(self, rowids: list[int]) -> dict[int, str]:
        if self._content is None:
            return {rowid: str(rowid) for rowid in rowids}
        known = {} if self._matrix is None else self._matrix.ids
        if missing := [rowid for rowid in rowids if rowid not in known]:
            sql = (
                f"SELECT rowid, {self._content.column} FROM {self._content.table} "  # noqa: S608
                "WHERE rowid IN (SELECT value FROM json_each(?))"
            )
            rows = rows_of_keys(self._connection, sql, missing)
            known.update((row[0], str(row[1])) for row in rows)
        return known
