"""The optimiser (Kingma & Ba 2015; Loshchilov & Hutter 2019)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from train.tensors import Array

__all__ = ["Adam"]

_FIRST, _SECOND, _TINY = 0.9, 0.999, 1e-8


class Adam:
    """Updates weights in place, against their gradients.

    Args:
        weights: The weights by name.
        decay: The share of a weight that a step subtracts, times the rate.
    """

    def __init__(self, weights: Mapping[str, Array], *, decay: float = 0.0) -> None:
        self._weights = weights
        self._decay = decay
        self._first = {name: np.zeros_like(values) for name, values in weights.items()}
        self._second = {name: np.zeros_like(values) for name, values in weights.items()}
        self._steps = 0

    def step(self, slopes: Mapping[str, Array], rates: Mapping[str, float]) -> None:
        """Take a step.

        Args:
            slopes: The gradients of all weights; they are overwritten.
            rates: The learning rate of each weight.
        """
        self._steps += 1
        size = 1 / (1 - _FIRST**self._steps)
        spread = 1 / (1 - _SECOND**self._steps)
        for name, values in self._weights.items():
            slope, rate = slopes[name], rates[name]
            first, second = self._first[name], self._second[name]
            first *= _FIRST
            first += (1 - _FIRST) * slope
            slope *= slope
            second *= _SECOND
            slope *= 1 - _SECOND
            second += slope
            np.multiply(second, spread, out=slope)
            np.sqrt(slope, out=slope)
            slope += _TINY
            np.divide(first, slope, out=slope)
            if self._decay:
                values *= 1 - rate * self._decay
            slope *= rate * size
            values -= slope
