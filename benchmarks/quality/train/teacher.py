"""The vectors of other models, from which the static vectors start and learn."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
from toolembed._wordpieces import WordPieces

from train.base import CACHE, LAYERS, base_weights, word_vectors
from train.bert import END, START, WIDTH, batches, embed, layer, pool
from train.tensors import Array

__all__ = ["FIRST_PIECE", "LONGEST", "number_texts", "piece_vectors", "vectors"]

LONGEST = 96
"""Tokens of a text that are looked at."""

FIRST_PIECE = 999
"""Below are pieces that are no text, and those that nobody uses."""

_TEXTS = CACHE / "texts.npz"
_PIECES = CACHE / "pieces.npy"
_TOGETHER = 1024


def number_texts(pieces: WordPieces, texts: Iterable[str]) -> list[list[int]]:
    """Return the numbers of each text's pieces, with those of start and end around them."""
    return [[START, *pieces.numbers(text)[: LONGEST - 2], END] for text in texts]


def vectors(pieces: WordPieces, texts: Sequence[str]) -> Array:
    """Return a unit vector for each text, cached in a file."""
    keys = [hashlib.sha256(text.encode("utf-8", "replace")).digest()[:16] for text in texts]
    known: dict[bytes, Array] = {}
    if _TEXTS.exists():
        with np.load(_TEXTS) as stored:
            known = dict(zip(map(bytes, stored["keys"]), stored["vectors"], strict=True))
    missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
    if missing:
        weights = base_weights()
        rows = list(missing)
        numbers = number_texts(pieces, missing.values())
        for group in batches(numbers):
            states, mask = embed(weights, [numbers[row] for row in group])
            for number in range(LAYERS):
                states, _ = layer(weights, number, states, mask)
            found, _ = pool(states, mask)
            known |= zip((rows[row] for row in group), found.astype("f2"), strict=True)
        np.savez(
            _TEXTS,
            keys=np.array([list(key) for key in known], np.uint8),
            vectors=np.array(list(known.values())),
        )
    return np.array([known[key] for key in keys]).astype("f4")


def piece_vectors(pieces: WordPieces) -> Array:
    """Return the concatenated vectors of two models for each piece alone, with equal weights.

    all-MiniLM-L6-v2: the mean of its last states. wordllama: the piece's vector as a word.
    """
    if _PIECES.exists():
        stored: Array = np.load(_PIECES)
        return stored
    words = word_vectors([piece.removeprefix("##") for piece in pieces])
    halves = [rows - rows[FIRST_PIECE:].mean(axis=0) for rows in (_alone(pieces), words)]
    found = np.hstack(
        [rows / np.sqrt((rows[FIRST_PIECE:] ** 2).sum(axis=1).mean()) for rows in halves]
    )
    np.save(_PIECES, found)
    return found


def _alone(pieces: WordPieces) -> Array:
    weights = base_weights()
    found = np.empty((len(pieces), WIDTH), "f4")
    for first in range(0, len(pieces), _TOGETHER):
        rows = range(first, min(first + _TOGETHER, len(pieces)))
        states, mask = embed(weights, [[START, row, END] for row in rows])
        for number in range(LAYERS):
            states, _ = layer(weights, number, states, mask)
        found[first : rows.stop] = states.mean(axis=1)
    return found
