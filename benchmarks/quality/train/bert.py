"""A BERT transformer in numpy, with forward and backward passes (Devlin et al. 2019).

Texts of similar length are processed together, padded to the longest. A layer returns a tuple that
only its own backward pass reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence

import numpy as np

from train.tensors import Array

__all__ = ["HEADS", "WIDTH", "batches", "embed", "layer", "layer_back", "pool", "pool_back"]

WIDTH = 384
HEADS = 12
START, END = 101, 102

_EACH = WIDTH // HEADS
_TINY = np.float32(1e-12)
_A, _B = np.float32(0.7978845608), np.float32(0.044715)


def batches(texts: Sequence[Sequence[int]], *, tokens: int = 1024) -> Iterator[list[int]]:
    """Group texts by similar length, with a maximum number of tokens per group."""
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    group: list[int] = []
    for row in order:
        if group and (len(group) + 1) * len(texts[row]) > tokens:
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def embed(weights: Mapping[str, Array], texts: Sequence[Sequence[int]]) -> tuple[Array, Array]:
    """Return the texts' first hidden states, and a mask that is 0 for padding."""
    longest = max(map(len, texts))
    numbers = np.zeros((len(texts), longest), int)
    mask = np.zeros((len(texts), longest), "f4")
    for row, text in enumerate(texts):
        numbers[row, : len(text)] = text
        mask[row, : len(text)] = 1
    states = weights["words"][numbers] + weights["places"][:longest]
    return _norm(states, weights, "norm")[0], mask


def layer(
    weights: Mapping[str, Array], number: int, states: Array, mask: Array
) -> tuple[Array, tuple[Array, ...]]:
    """Return the hidden states after a layer, and what its backward pass needs."""
    texts, length, _ = states.shape
    mixed = _linear(states, weights, f"{number}.qkv")
    query, key, value = mixed.reshape(texts, length, 3, HEADS, _EACH).transpose(2, 0, 3, 1, 4)
    scores = query @ key.swapaxes(-1, -2) * np.float32(_EACH**-0.5)
    scores += (mask[:, None, None, :] - 1) * np.float32(1e4)
    scores -= scores.max(axis=-1, keepdims=True)
    share = np.exp(scores, out=scores)
    share /= share.sum(axis=-1, keepdims=True)
    seen = (share @ value).transpose(0, 2, 1, 3).reshape(texts, length, WIDTH)
    sums = _linear(seen, weights, f"{number}.out")
    sums += states
    middle, *norm1 = _norm(sums, weights, f"{number}.norm1")
    wide = _linear(middle, weights, f"{number}.wide")
    gate = _gate(wide)
    active = wide * gate
    sums = _linear(active, weights, f"{number}.narrow")
    sums += middle
    out, *norm2 = _norm(sums, weights, f"{number}.norm2")
    return out, (states, query, key, value, share, seen, middle, wide, gate, *norm1, *norm2)


def layer_back(
    weights: Mapping[str, Array],
    number: int,
    kept: tuple[Array, ...],
    slope: Array,
    slopes: MutableMapping[str, Array],
) -> Array:
    """Add the gradients of a layer's weights to `slopes`; return the gradient of its input."""
    states, query, key, value, share, seen, middle, wide, gate, *norms = kept
    texts, length, _ = states.shape
    slope = _norm_back(slope, weights, f"{number}.norm2", norms[2:], slopes)
    inner = _linear_back(slope, weights, f"{number}.narrow", wide * gate, slopes)
    # The derivative of x·s(2u) with u = a·(x + b·x³) is s + 2·x·s·(1 - s)·u'.
    inside = wide * wide
    inside *= 6 * _A * _B
    inside += 2 * _A
    inside *= wide
    inside *= gate
    inside *= 1 - gate
    inside += gate
    inner *= inside
    slope += _linear_back(inner, weights, f"{number}.wide", middle, slopes)
    slope = _norm_back(slope, weights, f"{number}.norm1", norms[:2], slopes)
    of_seen = _linear_back(slope, weights, f"{number}.out", seen, slopes)
    of_seen = of_seen.reshape(texts, length, HEADS, _EACH).transpose(0, 2, 1, 3)
    of_share = of_seen @ value.swapaxes(-1, -2)
    of_share -= (of_share * share).sum(axis=-1, keepdims=True)
    of_share *= share
    of_share *= np.float32(_EACH**-0.5)
    of_mixed = np.empty((texts, length, 3, HEADS, _EACH), "f4")
    of_mixed[:, :, 0] = (of_share @ key).transpose(0, 2, 1, 3)
    of_mixed[:, :, 1] = (of_share.swapaxes(-1, -2) @ query).transpose(0, 2, 1, 3)
    of_mixed[:, :, 2] = (share.swapaxes(-1, -2) @ of_seen).transpose(0, 2, 1, 3)
    of_mixed = of_mixed.reshape(texts, length, 3 * WIDTH)
    slope += _linear_back(of_mixed, weights, f"{number}.qkv", states, slopes)
    return slope


def pool(states: Array, mask: Array) -> tuple[Array, tuple[Array, ...]]:
    """Return the unit vector of each text: the mean of its states."""
    share = mask / mask.sum(axis=1, keepdims=True)
    mean = (states * share[:, :, None]).sum(axis=1)
    length = np.linalg.norm(mean, axis=1, keepdims=True)
    return mean / length, (share, mean / length, length)


def pool_back(kept: tuple[Array, ...], slope: Array) -> Array:
    """Return the gradient of the states."""
    share, unit, length = kept
    slope = (slope - unit * (slope * unit).sum(axis=1, keepdims=True)) / length
    whole: Array = share[:, :, None] * slope[:, None, :]
    return whole


def _gate(x: Array) -> Array:
    # GELU's tanh form (Hendrycks & Gimpel 2016): x·(1 + tanh u)/2 is x·s(2u).
    gate = x * x
    gate *= -2 * _A * _B
    gate -= 2 * _A
    gate *= x
    # Clipping avoids an overflow; the gate is closed there anyway.
    np.exp(np.minimum(gate, 80, out=gate), out=gate)
    gate += 1
    return np.reciprocal(gate, out=gate)


def _linear(x: Array, weights: Mapping[str, Array], name: str) -> Array:
    flat = x.reshape(-1, x.shape[-1]) @ weights[f"{name}.weight"]
    flat += weights[f"{name}.bias"]
    return flat.reshape(*x.shape[:-1], -1)


def _linear_back(
    slope: Array,
    weights: Mapping[str, Array],
    name: str,
    given: Array,
    slopes: MutableMapping[str, Array],
) -> Array:
    flat = slope.reshape(-1, slope.shape[-1])
    slopes[f"{name}.weight"] += given.reshape(-1, given.shape[-1]).T @ flat
    slopes[f"{name}.bias"] += flat.sum(axis=0)
    return (flat @ weights[f"{name}.weight"].T).reshape(given.shape)


def _norm(x: Array, weights: Mapping[str, Array], name: str) -> tuple[Array, Array, Array]:
    x = x - x.mean(axis=-1, keepdims=True)
    scale = 1 / np.sqrt(np.einsum("...i,...i->...", x, x)[..., None] / x.shape[-1] + _TINY)
    x *= scale
    return x * weights[f"{name}.weight"] + weights[f"{name}.bias"], x, scale


def _norm_back(
    slope: Array,
    weights: Mapping[str, Array],
    name: str,
    kept: Sequence[Array],
    slopes: MutableMapping[str, Array],
) -> Array:
    x, scale = kept
    slopes[f"{name}.weight"] += (slope * x).reshape(-1, x.shape[-1]).sum(axis=0)
    slopes[f"{name}.bias"] += slope.reshape(-1, slope.shape[-1]).sum(axis=0)
    slope = slope * weights[f"{name}.weight"]
    along = np.einsum("...i,...i->...", slope, x)[..., None] / x.shape[-1]
    slope -= slope.mean(axis=-1, keepdims=True)
    slope -= x * along
    slope *= scale
    return slope
