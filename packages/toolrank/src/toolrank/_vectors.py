"""Semantic retrieval: exact nearest neighbours, by sqlite-vec or by products in memory."""

from __future__ import annotations

import math
from array import array
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from toolrank._arguments import identifier, json_array
from toolrank._full_text import ids_of_rows
from toolrank._records import Hit
from toolrank.errors import RankingArgumentError, RetrievalError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Self

    import numpy as np

    from toolrank._records import Filter, IdColumn
    from toolrank.protocols import Connection

    Array = np.ndarray[Any, Any]

# The most that sqlite-vec gives in one search.
_MAX_NEIGHBOURS = 4096
# The blobs of a portion are objects on the heap, which keeps their memory: 4,096 vectors of 256
# numbers leave 7 MB there.
_PORTION = 512
# Large blocks of numpy's own are read faster, because they lie in large pages of memory.
_PORTIONS = 32
# Later states' blocks are joined up to this many rows.
_JOINED = 4_096
# Larger products are split among the cores, whose threads busy-wait for longer than they save.
_UNSPLIT = 1 << 17
_ROUNDING = 1e-5
# For each number of a vector, how far roundings may move a row from its place.
_ROUNDED = 4 * 2.0**-24


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


class _Rows(NamedTuple):
    """One state of the rows: in `blocks`, which states share, are vectors of length 1."""

    rowids: Array
    versions: Array
    live: Array  # Others were rows of an earlier state.
    blocks: tuple[Array, ...]


class MatrixRetriever:
    """Rank rows by cosine similarity to the query's vector, with all vectors in memory.

    A search is exact and several times faster than one by sqlite-vec, but needs numpy (the extra
    `numpy`), whose import takes as long as about twenty searches, and four bytes for each number:
    for a single search, give `Tables` the name of a table. All vectors are read when it is made.

    Example:
        >>> held = MatrixRetriever(connection, "SELECT rowid, embedding FROM docs_vec")
        >>> Tables(other_connection, "docs_fts", vectors=held.using(other_connection))

    Args:
        connection: An open connection.
        vectors: A SELECT of an integer and of a vector in little-endian float32, all of one length.
            A row of zeros, or with a value that is not finite, has no direction and is never found.
        parameters: Its parameters.
        versions: A SELECT of the same integers, each with its version: an integer that is new
            whenever the row's vector is, and is never used again.
        previous: A retriever of another state, made with the same SELECTs: the rows that it has are
            not read again, and their memory is shared.
        content: Where hits get their ids; without it an id is the integer in digits.
        ids: A cache of ids by rowid, filled lazily, such as `Tables.ids`.

    Raises:
        ModuleNotFoundError: numpy is not installed.
        RetrievalError: The rows cannot be read, or are not vectors of one length.
    """

    def __init__(
        self,
        connection: Connection,
        vectors: str,
        parameters: Sequence[Any] = (),
        *,
        versions: str | None = None,
        previous: MatrixRetriever | None = None,
        content: IdColumn | None = None,
        ids: dict[int, str] | None = None,
    ) -> None:
        try:
            # Imported where it is used, because the package works without it.
            import numpy as np
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f'{error}; install "toolrank-hybrid[numpy]"', name=error.name
            ) from error

        self._np = np
        self._connection = connection
        self._sql_of_ids = "" if content is None else ids_of_rows(content)
        self._ids: dict[int, str] = {} if ids is None else ids
        self._where: Filter | None = None
        self._products: dict[bytes, tuple[Array, Array]] = {}
        try:
            old = None if previous is None else previous._rows
            self._rows = self._read(vectors, parameters, versions, old)
        except Exception as error:
            # Each driver has its own errors, without a common base class below Exception.
            raise RetrievalError("vector", error) from error

    def using(self, connection: Connection, *, where: Filter | None = None) -> Self:
        """Return a retriever of the same vectors, for a search through another connection.

        Args:
            connection: A connection to the same state of the database.
            where: The rows to search among.
        """
        other = type(self).__new__(type(self))
        vars(other).update(vars(self))
        other._connection, other._where, other._products = connection, where, {}
        return other

    def nearest(
        self, vector: Sequence[float], /, *, depth: int, then: Sequence[Sequence[float]] = ()
    ) -> list[Hit]:
        """Return the `depth` rows nearest to a vector.

        Scores are cosine similarities in [-1, 1]. A vector of zeros, which has no direction, finds
        nothing.

        Args:
            vector: The vector of a query.
            depth: How many at most.
            then: What will be asked for next. These are multiplied at the same time, which takes a
                third of the time.

        Raises:
            RankingArgumentError: The vector holds a value that is not finite.
            RetrievalError: The content table is missing, or the dimensions differ.
        """
        np = self._np
        # In double precision, so that no finite vector overflows.
        values, *others = (np.asarray(each, np.float64) for each in (vector, *then))
        if not np.isfinite(values).all():
            raise RankingArgumentError("vector", "it holds a value that is not finite")
        if not values.any() or not len(self._rows.rowids):
            return []
        try:
            return self._hits(*self._cosines(values, others), depth)
        except Exception as error:
            raise RetrievalError("vector", error) from error

    def _cosines(self, vector: Array, then: Sequence[Array]) -> tuple[Array | None, Array]:
        """Return a vector's cosines with all rows, and if they are rounded, its unit vector.

        Rounded ones depend on the number of vectors.
        """
        np = self._np
        if (known := self._products.pop(vector.tobytes(), None)) is not None:
            return known
        vectors = [vector, *(each for each in then if np.isfinite(each).all() and each.any())]
        scaled = [each / np.abs(each).max() for each in vectors]
        units = np.array([each / np.linalg.norm(each) for each in scaled], dtype=np.float32)
        blocks = self._rows.blocks
        if len(units) == 1:
            return None, np.concatenate([np.vecdot(block, units[0]) for block in blocks])
        found = np.empty((len(units), len(self._rows.rowids)), dtype=np.float32)
        step, at = max(1, _UNSPLIT // units.size), 0
        for block in blocks:
            for start in range(0, len(block), step):
                rows = block[start : start + step]
                np.matmul(units, rows.T, out=found[:, at : at + len(rows)])
                at += len(rows)
        keys = [each.tobytes() for each in vectors]
        self._products = dict(zip(keys, zip(units, found, strict=True), strict=True))
        return self._products.pop(keys[0])

    def _hits(self, unit: Array | None, cosines: Array, depth: int) -> list[Hit]:
        np = self._np
        found = self._rows.live
        if self._where is not None:
            found = found & np.isin(self._rows.rowids, self._allowed(self._where))
        count = np.count_nonzero(found)
        if count < len(found):
            cosines = np.where(found, cosines, -np.inf)
        if not (wanted := min(depth, count)):
            return []
        # Keep all that may be as good as the last one; their ids decide later.
        least = min(np.partition(cosines, -wanted)[-wanted], 1.0)
        if unit is None:
            (places,) = np.nonzero(cosines >= least)
            scores = cosines[places]
        else:
            (places,) = np.nonzero(cosines >= least - len(unit) * _ROUNDED)
            scores = self._exact(unit, places)
        rows, costs = self._rows.rowids[places].tolist(), np.clip(-scores, -1.0, 1.0).tolist()
        ids = self._ids_of(rows)
        ranked = sorted(
            [(cost, ids[row]) for row, cost in zip(rows, costs, strict=True) if row in ids]
        )
        return [Hit(id_, -cost) for cost, id_ in ranked[:depth]]

    def _exact(self, unit: Array, places: Array) -> Array:
        """Return the cosines of some rows, each as if it were alone."""
        np = self._np
        ends = np.cumsum([len(block) for block in self._rows.blocks])
        portions = np.split(places, np.searchsorted(places, ends[:-1]))
        each = zip(self._rows.blocks, portions, ends, strict=True)
        return np.concatenate(
            [np.vecdot(block[some - (end - len(block))], unit) for block, some, end in each]
        )

    def _allowed(self, where: Filter) -> Array:
        if where.rows is not None:
            return self._np.fromiter(where.rows, dtype=self._np.int64, count=len(where.rows))
        return self._integers(where.sql, where.parameters, "row")[0]

    def _integers(self, sql: str, parameters: Sequence[Any], *columns: str) -> list[Array]:
        """Return columns of integers, ordered by the first one."""
        # Each as one text, because creating an object for each number takes longer than parsing it.
        texts = ", ".join(f"group_concat({column})" for column in columns)
        each = f"WITH rows ({', '.join(columns)}) AS ({sql}) SELECT * FROM rows ORDER BY 1"  # noqa: S608
        (found,) = self._connection.execute(f"SELECT {texts} FROM ({each})", parameters)  # noqa: S608
        return [self._np.fromstring(it or "", dtype=self._np.int64, sep=",") for it in found]

    def _ids_of(self, rowids: list[int]) -> dict[int, str]:
        if not self._sql_of_ids:
            return {rowid: str(rowid) for rowid in rowids}
        if missing := [rowid for rowid in rowids if rowid not in self._ids]:
            rows = self._connection.execute(self._sql_of_ids, (json_array(missing),))
            self._ids.update((row[0], str(row[1])) for row in rows)
        return self._ids

    def _read(
        self, sql: str, parameters: Sequence[Any], versions: str | None, old: _Rows | None
    ) -> _Rows:
        np = self._np
        if versions is None:
            rowids, blocks = self._blocks(self._connection.execute(sql, parameters))
            return _Rows(rowids, rowids, np.ones(len(rowids), dtype=bool), blocks)
        rows, numbers = self._integers(versions, (), "row", "version")
        if old is not None and len(rows):
            place = np.searchsorted(rows, old.rowids)
            live = old.live & (rows.take(place, mode="clip") == old.rowids)
            live &= numbers.take(place, mode="clip") == old.versions
            is_new = np.ones(len(rows), dtype=bool)
            is_new[place[live]] = False
            # Many rows are read faster with all others, which also frees memory.
            if 4 * is_new.sum() <= len(rows) and len(live) <= 2 * len(rows):
                changed = rows[is_new], numbers[is_new]
                return self._appended(old._replace(live=live), *changed, sql, parameters)
        rowids, blocks = self._blocks(self._connection.execute(sql, parameters))
        place = np.searchsorted(rows, rowids)
        live = rows.take(place, mode="clip") == rowids
        return _Rows(rowids, numbers.take(place, mode="clip"), live, blocks)

    def _appended(
        self, old: _Rows, rows: Array, numbers: Array, sql: str, parameters: Sequence[Any]
    ) -> _Rows:
        np = self._np
        # CROSS keeps SQLite from reading all vectors where a few are asked for.
        some = (
            f"WITH held (row, vector) AS ({sql}) SELECT row, vector "  # noqa: S608
            "FROM json_each(?) AS wanted CROSS JOIN held ON row = wanted.value"
        )
        found = self._connection.execute(some, (*parameters, json_array(rows.tolist())))
        rowids, blocks = self._blocks(found)
        blocks = (*old.blocks, *blocks)
        # A change adds a few rows, which share a block with those of the last change.
        if len(blocks) > 1 and len(blocks[-2]) + len(blocks[-1]) <= _JOINED:
            blocks = (*blocks[:-2], np.concatenate(blocks[-2:]))
        return _Rows(
            np.concatenate([old.rowids, rowids]),
            np.concatenate([old.versions, numbers[np.searchsorted(rows, rowids)]]),
            np.concatenate([old.live, np.ones(len(rowids), dtype=bool)]),
            blocks,
        )

    def _blocks(self, rows: Iterable[Sequence[Any]]) -> tuple[Array, tuple[Array, ...]]:
        """Return the rowids of those rows that have a direction, and their vectors' directions."""
        np = self._np
        rowids: list[Array] = [np.empty(0, dtype=np.int64)]
        blocks: list[Array] = []
        portions: list[Array] = []
        each = iter(rows)
        while some := list(islice(each, _PORTION)):
            numbers, blobs = zip(*some, strict=True)
            if len({*map(len, blobs)}) > 1:
                raise ValueError("the vectors have different lengths")
            vectors = np.frombuffer(b"".join(blobs), dtype="<f4").reshape(len(blobs), -1)
            ids = np.array(numbers, dtype=np.int64)
            with np.errstate(all="ignore"):
                # Those of length 1 stay as they are, to the last digit.
                odd = ~(np.abs(np.sqrt(np.vecdot(vectors, vectors)) - 1) < _ROUNDING)
                if odd.any():
                    # In double precision, so that none overflows.
                    scaled = vectors.astype(np.float64)
                    scaled /= np.linalg.norm(scaled, axis=1, keepdims=True)
                    vectors = np.where(odd[:, None], scaled.astype(np.float32), vectors)
                    found = np.isfinite(vectors).all(axis=1)
                    ids, vectors = ids[found], vectors[found]
            rowids.append(ids)
            portions.append(vectors)
            if len(portions) == _PORTIONS:
                blocks.append(np.concatenate(portions))
                portions.clear()
        if portions:
            blocks.append(np.concatenate(portions))
        return np.concatenate(rowids), tuple(blocks)
