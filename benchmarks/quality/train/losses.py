"""The losses of training, with their gradients."""

from __future__ import annotations

import numpy as np

from train.tensors import Array

__all__ = ["contrast", "likeness", "through_unit", "unit"]


def unit(rows: Array) -> tuple[Array, Array]:
    """Return unit vectors, and the original lengths."""
    length = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    return rows / length, length


def through_unit(slope: Array, rows: Array, length: Array) -> Array:
    """Return the gradient before `unit`, which is orthogonal to the vector."""
    across: Array = (slope - rows * (slope * rows).sum(axis=1, keepdims=True)) / length
    return across


def contrast(
    scores: Array, right: Array, temperature: float, *, left_out: Array | None = None
) -> tuple[float, Array]:
    """Return InfoNCE (van den Oord, Li & Vinyals 2018), and the gradient of the scores.

    Args:
        scores: Cosines, a row for each request.
        right: The target shares of the answers in each row.
        temperature: The divisor of the scores.
        left_out: True for answers that do not count in a row.
    """
    logs = _log_shares(scores / temperature, left_out)
    slope = (np.exp(logs) * right.sum(axis=1, keepdims=True) - right) / temperature / len(scores)
    return -float((right * np.where(right > 0, logs, 0)).sum()) / len(scores), slope


def likeness(rows: Array, taught: Array, temperature: float) -> tuple[float, Array]:
    """Return how far the rows' similarities differ from the teacher's, and the gradient.

    This is the Kullback-Leibler divergence between the softmax of each row's cosines to the others.
    """
    same = np.eye(len(rows), dtype=bool)
    theirs = _log_shares(taught @ taught.T / temperature, same)
    ours = _log_shares(rows @ rows.T / temperature, same)
    shares = np.exp(theirs)
    loss = float((shares * np.where(same, 0, theirs - ours)).sum()) / len(rows)
    slope = (np.exp(ours) - shares) / temperature / len(rows)
    return loss, (slope + slope.T) @ rows


def _log_shares(scores: Array, left_out: Array | None) -> Array:
    if left_out is not None:
        scores = np.where(left_out, np.float32(-1e4), scores)
    scores = scores - scores.max(axis=1, keepdims=True)
    shares: Array = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    return shares
