"""Vectors in memory with one byte per dimension, and which of them may be the nearest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

# As floats they stay in the processor's cache until they are multiplied.
_BLOCK_ROWS = 512


class ByteMatrix(NamedTuple):
    """A vector table in memory at a quarter of its size: one row for each nonzero vector.

    Attributes:
        rowids: int64, of shape (rows,).
        places: int64: where the table keeps each row.
        values: int8, of shape (rows, dimensions).
        scales: float32: what 1 stands for in the values of each row, once it has length 1.
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
    """Return a matrix of portions of a table: rowids, places and vectors, of any lengths."""
    import numpy as np

    parts = [_portion(*portion) for portion in portions]
    if not parts:
        whole = np.empty(0, dtype=np.int64)
        reals = np.empty(0, dtype=np.float32)
        return ByteMatrix(whole, whole, np.empty((0, 0), dtype=np.int8), reals, reals, {})
    rowids, places, values, scales, errors = map(np.concatenate, zip(*parts, strict=True))
    return ByteMatrix(rowids, places, values, scales, errors, {})


def may_be_nearest(matrix: ByteMatrix, unit: Any, depth: int, allowed: Any) -> Any:  # noqa: ANN401
    """Return positions of rows that are certain to include the `depth` nearest to a unit vector.

    Args:
        matrix: The rows.
        unit: float32, of length 1.
        depth: How many are wanted.
        allowed: The rowids to choose from; None for all.
    """
    import numpy as np

    if not len(matrix.rowids):
        return np.empty(0, dtype=np.int64)
    cosines = np.empty(len(matrix.values), dtype=np.float32)
    block = np.empty((_BLOCK_ROWS, matrix.values.shape[1]), dtype=np.float32)
    for start in range(0, len(cosines), _BLOCK_ROWS):
        part = slice(start, start + _BLOCK_ROWS)
        floats = block[: len(matrix.values[part])]
        np.copyto(floats, matrix.values[part])
        np.vecdot(floats, unit, out=cosines[part])
    cosines *= matrix.scales
    if allowed is not None:
        cosines[~np.isin(matrix.rowids, allowed)] = -np.inf
    least = cosines - matrix.errors
    last = max(len(least) - depth, 0)
    most = np.add(cosines, matrix.errors, out=cosines)
    return np.flatnonzero((most >= np.partition(least, last)[last]) & np.isfinite(most))


def _portion(rowids: Any, places: Any, vectors: Any) -> tuple[Any, ...]:  # noqa: ANN401
    import numpy as np

    # Measured by the largest value first, so that no row is too long for single precision.
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
