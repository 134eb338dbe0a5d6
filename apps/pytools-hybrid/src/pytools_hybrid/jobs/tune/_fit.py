"""Learning a map of query vectors from requests and the tools that answer them, with numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    Matrix = np.ndarray[Any, Any]

# Chosen on the dev halves of four sets: docs/decisions/0024.
_SHRINKAGE = 60.0
_TEMPERATURE = 0.05
_STEPS = 40
_RATE = 6e-3
# Longer vectors are projected onto the principal directions of requests and tools.
_DIRECTIONS = 256
_FACTORS = 64


def fit(queries: Matrix, tools: Matrix, right: Sequence[Sequence[int]]) -> tuple[Matrix, Matrix]:
    """Return the factors of a map that brings requests closer to the tools that answer them.

    The map minimizes the cross entropy of the right tools among all tools, plus its distance from
    the identity, so it changes less the fewer requests there are.

    Args:
        queries: A unit vector for each request.
        tools: A unit vector for each tool.
        right: For each request, the indices of the tools that answer it, at least one.

    Returns:
        `down` and `up`: a vector v becomes v + (v · down) · up.
    """
    count = len(queries)
    # Single precision halves the time.
    queries, tools = queries.astype("f4"), tools.astype("f4")
    wanted = np.zeros((count, len(tools)), "f4")
    for row, places in enumerate(right):
        wanted[row, list(places)] = 1 / len(places)
    directions = _directions(queries, tools)
    asked, offered = queries @ directions, tools @ directions
    # The map does not change components in other directions.
    rest = queries @ tools.T - asked @ offered.T
    rest_squared = np.maximum((queries**2).sum(1) - (asked**2).sum(1), 0)
    change = np.zeros((len(directions.T),) * 2, "f4")
    mean, square = np.zeros_like(change), np.zeros_like(change)
    # Adam (Kingma & Ba 2015).
    for step in range(1, _STEPS + 1):
        moved = asked + asked @ change
        lengths = np.sqrt(rest_squared + (moved**2).sum(1))[:, None]
        cosines = (rest + moved @ offered.T) / lengths
        slopes = (_softmax(cosines / _TEMPERATURE) - wanted) / (_TEMPERATURE * count)
        of_moved = (
            slopes @ offered - (slopes * cosines).sum(1, keepdims=True) * moved / lengths
        ) / lengths
        gradient = asked.T @ of_moved + 2 * _SHRINKAGE / count * change
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.99 * square + 0.01 * gradient**2
        rate = _RATE * (1 - 0.9 * step / _STEPS)
        change -= rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
    left, sizes, right_ = np.linalg.svd(change)
    factors = min(_FACTORS, len(sizes))
    down: Matrix = (directions @ left[:, :factors] * np.sqrt(sizes[:factors])).T
    up: Matrix = np.sqrt(sizes[:factors])[:, None] * right_[:factors] @ directions.T
    return down, up


def _directions(queries: Matrix, tools: Matrix) -> Matrix:
    dimensions = queries.shape[1]
    wanted = min(_DIRECTIONS, len(queries) + len(tools))
    if dimensions <= wanted:
        return np.eye(dimensions, dtype="f4")
    spread = queries.T @ queries / len(queries) + tools.T @ tools / len(tools)
    found: Matrix = np.linalg.eigh(spread)[1][:, -wanted:]
    return found


def _softmax(scores: Matrix) -> Matrix:
    weights = np.exp(scores - scores.max(1, keepdims=True))
    shares: Matrix = weights / weights.sum(1, keepdims=True)
    return shares
