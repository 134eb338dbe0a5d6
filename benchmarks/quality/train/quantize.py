"""Quantize matrices to eight bits per weight, with a scale for each output."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from train.tensors import Array

__all__ = ["quantized", "rounded"]

_ROWS = ("words", "places")


def rounded(matrix: Array, axis: int) -> tuple[Array, Array]:
    """Return the matrix in steps of a scale, and the scales along `axis`."""
    scale = np.maximum(np.abs(matrix).max(axis=axis, keepdims=True), 1e-9) / 127
    # Round the scale to its stored precision before using it.
    scale = np.maximum(scale.astype("f2"), np.float16(6e-8)).astype("f4")
    steps = np.clip(np.rint(matrix / scale), -127, 127).astype(np.int8)
    return steps, scale.squeeze(axis).astype("f2")


def quantized(weights: Mapping[str, Array]) -> dict[str, Array]:
    """Return the tensors to write for a transformer: `NAME.scale` has the scales of `NAME`."""
    found: dict[str, Array] = {}
    for name, values in weights.items():
        if values.ndim == 1:
            found[name] = values.astype("f2")
        else:
            found[name], found[f"{name}.scale"] = rounded(values, int(name in _ROWS))
    return found
