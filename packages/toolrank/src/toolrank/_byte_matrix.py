"""Vectors in memory with one byte per dimension, and which of them may be the nearest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np

# They stay in the processor's cache until they are multiplied.
_BLOCK_ROWS = 512
# OpenBLAS splits a larger product among all cores, whose threads then busy-wait for much longer
# than they save.
_ONE_CORE = 1 << 18


class ByteMatrix(NamedTuple):
    """A vector table in memory at a quarter of its size: one row for each nonzero vector.

    Attributes:
        rowids: int64, of shape (rows,).
        places: int64: where the table keeps each row.
        values: int8, of shape (rows, dimensions).
        scales: float32: what 1 means in the values of each row, scaled to length 1.
        errors: float32: the largest error of each row's cosine.
        ids: The ids of rows that have been hits, filled in as they are found.
    """

    rowids: np.ndarray[Any, Any]
    places: np.ndarray[Any, Any]
    values: np.ndarray[Any, Any]
    scales: np.ndarray[Any, Any]
    errors: np.ndarray[Any, Any]
    ids: dict[int, str]


def byte_matrix(portions: Iterable[tuple[Any, Any, Any]]) -> ByteMatrix:
    """Return a matrix from parts of a table: rowids, places and vectors of any lengths."""
    import numpy as np

    parts = [_portion(*portion) for portion in portions]
    if not parts:
        whole = np.empty(0, dtype=np.int64)
        reals = np.empty(0, dtype=np.float32)
        return ByteMatrix(whole, whole, np.empty((0, 0), dtype=np.int8), reals, reals, {})
    rowids, places, values, scales, errors = map(np.concatenate, zip(*parts, strict=True))
    return ByteMatrix(rowids, places, values, scales, errors, {})


def products(values: Any, units: Sequence[Any]) -> Any:  # noqa: ANN401
    """Return the products of a matrix of floats or bytes with some vectors, a row for each vector.

    Products of floats equal those of `vecdot` to the last digit; products of bytes may differ.
    """
    import numpy as np

    # A product with one vector would be split among the cores, however small it is.
    stacked = np.stack(units if len(units) > 1 else [*units, *units])
    found = np.empty((len(stacked), len(values)), dtype=np.float32)
    rows = max(1, min(_BLOCK_ROWS, _ONE_CORE // stacked.size))
    block = np.empty((rows, values.shape[1]), dtype=np.float32)
    for start in range(0, len(values), rows):
        part = values[start : start + rows]
        if part.dtype == np.float32:
            for unit, row in zip(units, found, strict=False):
                np.vecdot(part, unit, out=row[start : start + rows])
        else:
            np.copyto(block[: len(part)], part)
            np.matmul(stacked, block[: len(part)].T, out=found[:, start : start + rows])
    return found[: len(units)]


def may_be_nearest(matrix: ByteMatrix, cosines: Any, depth: int, allowed: Any) -> Any:  # noqa: ANN401
    """Return positions of rows that are certain to include the `depth` nearest to a unit vector.

    Args:
        matrix: The rows.
        cosines: What their values and scales give.
        depth: How many are wanted.
        allowed: The rowids to choose from; None for all.

    Returns:
        First the positions of the `depth` that are the nearest by these cosines, in no order, then
        those of the others.
    """
    import numpy as np

    if not len(matrix.rowids):
        none = np.empty(0, dtype=np.int64)
        return none, none
    if allowed is not None:
        cosines = np.where(np.isin(matrix.rowids, allowed), cosines, -np.inf)
    least = cosines - matrix.errors
    last = max(len(least) - depth, 0)
    most = cosines + matrix.errors
    chosen = np.flatnonzero((most >= np.partition(least, last)[last]) & np.isfinite(most))
    if len(chosen) <= depth:
        return chosen, chosen[:0]
    best = np.argpartition(cosines[chosen], len(chosen) - depth)
    return chosen[best[-depth:]], chosen[best[:-depth]]


def _portion(rowids: Any, places: Any, vectors: Any) -> tuple[Any, ...]:  # noqa: ANN401
    import numpy as np

    # Scaled by the largest value first, so that no row overflows single precision.
    peaks = np.abs(vectors).max(axis=1)
    found = np.isfinite(peaks) & (peaks > 0)
    rows = vectors[found]
    rows /= peaks[found, None]
    lengths = np.sqrt(np.vecdot(rows, rows))
    rows *= 127
    values = np.rint(rows)
    rows -= values
    scales = 1 / (127 * lengths)
    # The Cauchy-Schwarz bound, plus rounding in single precision.
    errors = np.sqrt(np.vecdot(rows, rows)) * scales + rows.shape[1] * np.finfo(np.float32).eps
    return rowids[found], places[found], values.astype(np.int8), scales, errors
