"""A BERT transformer (Devlin et al. 2019), in numpy.

Its weights are in 8 bits with a scale for each output. They are converted to floats when they are
loaded; those of the word pieces, most of the file, only when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from toolembed._static import read_header
from toolembed._wordpieces import word_pieces

if TYPE_CHECKING:
    import mmap
    from collections.abc import Mapping, Sequence

    Array = np.ndarray[Any, Any]

LONGEST = 96
"""The maximum number of pieces of a text, as in training."""

_START, _END = 101, 102
_HEADS = 12
# Texts of about the same length are batched, because padding costs as much as text.
_PIECES_TOGETHER = 256
# OpenBLAS computes products of fewer multiplications in the calling thread. It divides larger ones
# among threads that wait for each other at full load: if other programs are running, a product of
# one millisecond then takes fifty, on every core. The number of its threads could only be set for
# the whole process.
_IN_ONE_THREAD = 1 << 18
_ROWS = 16
_TINY = 1e-12
_HIDDEN = np.float32(1e4)
_KINDS = {"I8": "|i1", "F16": "<f2"}


class Transformer:
    """Returns unit vectors of texts: the mean of the last layer's states.

    Args:
        weights: A safetensors file, as benchmarks/quality/train writes it.

    Attributes:
        width: The length of the vectors.

    Raises:
        ValueError: The weights are not those of such a model.
    """

    def __init__(self, weights: bytes | mmap.mmap) -> None:
        self._pieces = word_pieces()
        try:
            self._weights = _floats(weights)
            self.width: int = self._weights["norm.bias"].size
            self._layers = sum(name.endswith(".qkv.bias") for name in self._weights)
        except (KeyError, TypeError) as error:
            raise ValueError(f"these are not the weights of a transformer: {error!r}") from error

    def encode(self, texts: Sequence[str]) -> Array:
        """Return a float32 row for each text."""
        numbers = [[_START, *self._pieces.numbers(text)[: LONGEST - 2], _END] for text in texts]
        rows = np.empty((len(texts), self.width), np.float32)
        waiting = sorted(range(len(texts)), key=lambda row: -len(numbers[row]))
        while waiting:
            count = max(1, _PIECES_TOGETHER // len(numbers[waiting[0]]))
            group, waiting = waiting[:count], waiting[count:]
            rows[group] = self._batch([numbers[row] for row in group])
        return rows

    def _batch(self, numbers: Sequence[Sequence[int]]) -> Array:
        weights, longest = self._weights, max(map(len, numbers))
        padded = np.array([[*each, *[0] * (longest - len(each))] for each in numbers])
        lengths = np.array([len(each) for each in numbers])
        mask = (np.arange(longest) < lengths[:, None]).astype(np.float32)
        words = weights["words"][padded] * weights["words.scale"][padded][:, :, None]
        states = _norm(words + weights["places"][:longest], weights, "norm")
        # Nothing attends to the padding of a shorter text.
        hidden = ((mask - 1) * _HIDDEN)[:, None, None, :]
        for layer in range(self._layers):
            states = _layer(states, hidden, weights, f"{layer}.")
        sums = (states * mask[:, :, None]).sum(axis=1)
        unit: Array = sums / np.linalg.norm(sums, axis=1, keepdims=True)
        return unit


def _layer(states: Array, hidden: Array, weights: Mapping[str, Array], of: str) -> Array:
    texts, length, width = states.shape
    mixed = _linear(states, weights, f"{of}qkv").reshape(texts, length, 3, _HEADS, -1)
    query, key, value = mixed.transpose(2, 0, 3, 1, 4)
    scores = _stacked(query, key.swapaxes(-1, -2))
    scores = scores * np.float32((width // _HEADS) ** -0.5) + hidden
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    seen = _stacked(scores, value).transpose(0, 2, 1, 3).reshape(texts, length, width)
    states = _norm(states + _linear(seen, weights, f"{of}out"), weights, f"{of}norm1")
    wide = _gelu(_linear(states, weights, f"{of}wide"))
    return _norm(states + _linear(wide, weights, f"{of}narrow"), weights, f"{of}norm2")


def _linear(states: Array, weights: Mapping[str, Array], name: str) -> Array:
    # In two dimensions it is one product, instead of one for each text.
    flat = _product(states.reshape(-1, states.shape[-1]), weights[f"{name}.weight"])
    flat += weights[f"{name}.bias"]
    return flat.reshape(*states.shape[:-1], -1)


def _product(a: Array, b: Array) -> Array:
    """Return `a @ b`, in blocks that are small enough for one thread."""
    length, width = b.shape
    rows = min(_ROWS, len(a))
    columns = max(1, _IN_ONE_THREAD // (rows * length))
    while width % columns:
        columns -= 1
    blocks = b.reshape(length, -1, columns).swapaxes(0, 1)
    product = np.empty((len(a), width), np.float32)
    for start, count in ((0, len(a) // rows * rows), (len(a) // rows * rows, len(a) % rows)):
        if count:
            stack = a[start : start + count].reshape(-1, 1, min(rows, count), length)
            out = product[start : start + count].reshape(len(stack), -1, width // columns, columns)
            np.matmul(stack, blocks, out=out.swapaxes(1, 2))
    return product


def _stacked(a: Array, b: Array) -> Array:
    """Return `a @ b` of stacks of matrices that are at most twice too large for one thread."""
    rows = a.shape[-2]
    if rows * a.shape[-1] * b.shape[-1] < _IN_ONE_THREAD:
        product: Array = a @ b
        return product
    halves = a[..., : rows // 2, :] @ b, a[..., rows // 2 :, :] @ b
    return np.concatenate(halves, axis=-2)


def _gelu(x: Array) -> Array:
    # The variant with tanh (Hendrycks & Gimpel 2016), computed with exp, which is much faster.
    inner = x * (np.float32(-1.5957691216) - np.float32(0.0713548163) * x * x)
    gated: Array = x / (1 + np.exp(np.minimum(inner, 80, out=inner), out=inner))
    return gated


def _norm(x: Array, weights: Mapping[str, Array], name: str) -> Array:
    x = x - x.mean(axis=-1, keepdims=True)
    x /= np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(_TINY))
    found: Array = x * weights[f"{name}.weight"] + weights[f"{name}.bias"]
    return found


def _floats(data: bytes | mmap.mmap) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for name, tensor in read_header(data).items():
        kind = np.dtype(_KINDS[tensor.kind])
        count = (tensor.end - tensor.start) // kind.itemsize
        found[name] = np.frombuffer(data, kind, count, tensor.start).reshape(tensor.shape)
    for name in [name for name in found if f"{name}.scale" in found and name != "words"]:
        scale = found.pop(f"{name}.scale").astype(np.float32)
        # Positions have a scale for each row, everything else for each column of the product.
        found[name] = found[name].astype(np.float32)
        found[name] *= scale[:, None] if name == "places" else scale
    return {
        name: values if values.dtype == np.int8 else values.astype(np.float32, copy=False)
        for name, values in found.items()
    }
