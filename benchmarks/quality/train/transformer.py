"""Fine-tune all-MiniLM-L6-v2 on tools and the requests that they answer.

usage: PYTHONPATH=benchmarks/quality uv run python -m train.transformer OUT.safetensors
           [--tree TREE QUERIES]... [--steps N]

A batch has tools of one collection: some chosen at random and the nearest of each, so that wrong
tools are hard to distinguish from right ones, with one request for each tool. The embeddings and
the lowest layers stay as published. Set OPENBLAS_NUM_THREADS=1, or the last digits differ. Prints
the quality on the held-back categories, by vectors alone.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from toolembed._wordpieces import WordPieces

from train import bert
from train.adam import Adam
from train.base import LAYERS, base_weights
from train.data import Collection, read_tree, training_pool
from train.judge import judge
from train.losses import contrast
from train.quantize import quantized
from train.teacher import number_texts, vectors
from train.tensors import Array, write_tensors

FROZEN = 3
RATE = 4e-5
WARM_UP = 15
DECAY = 0.01
LONGEST_STEP = 1.0
TEMPERATURE = 0.05
# The weight of the loss from request to tool; the rest is that from tool to request.
TO_TOOLS = 0.75
DRAWN = 6
NEAREST = 8
MOST_PAIRS = 1500
REPORT = 50
# The number of batches between writes of the weights, for a run that is interrupted.
KEPT = 150
_TOGETHER = 256


class Encoder:
    """Encodes texts with the transformer, and caches the output of the frozen layers."""

    def __init__(self, weights: dict[str, Array]) -> None:
        self.weights = weights
        self.learned = {
            name: values
            for name, values in weights.items()
            if name.split(".")[0].isdecimal() and int(name.split(".")[0]) >= FROZEN
        }
        self._pieces = WordPieces()
        self._states: dict[str, Array] = {}

    def encode(self, texts: Sequence[str]) -> Array:
        """Return a unit vector for each text."""
        parts = [texts[n : n + _TOGETHER] for n in range(0, len(texts), _TOGETHER)]
        return np.concatenate([self.forward(part)[0] for part in parts])

    def forward(
        self, texts: Sequence[str]
    ) -> tuple[Array, list[tuple[list[int], list[tuple[Array, ...]]]]]:
        """Return a unit vector for each text, and what `backward` needs."""
        self._freeze([text for text in dict.fromkeys(texts) if text not in self._states])
        found = np.empty((len(texts), bert.WIDTH), "f4")
        kept = []
        for group in bert.batches([self._states[text] for text in texts]):
            lowest = [self._states[texts[row]] for row in group]
            states = np.zeros((len(group), max(map(len, lowest)), bert.WIDTH), "f4")
            mask = np.zeros(states.shape[:2], "f4")
            for row, each in enumerate(lowest):
                states[row, : len(each)] = each
                mask[row, : len(each)] = 1
            way = []
            for number in range(FROZEN, LAYERS):
                states, back = bert.layer(self.weights, number, states, mask)
                way.append(back)
            found[group], back = bert.pool(states, mask)
            kept.append((group, [*way, back]))
        return found, kept

    def backward(
        self,
        kept: list[tuple[list[int], list[tuple[Array, ...]]]],
        slope: Array,
        slopes: dict[str, Array],
    ) -> None:
        """Add the gradients of the trained weights to `slopes`."""
        for group, way in kept:
            states = bert.pool_back(way[-1], slope[group])
            for number in reversed(range(FROZEN, LAYERS)):
                states = bert.layer_back(self.weights, number, way[number - FROZEN], states, slopes)

    def _freeze(self, texts: Sequence[str]) -> None:
        numbers = number_texts(self._pieces, texts)
        for group in bert.batches(numbers):
            states, mask = bert.embed(self.weights, [numbers[row] for row in group])
            for number in range(FROZEN):
                states, _ = bert.layer(self.weights, number, states, mask)
            for row, each in zip(group, states, strict=True):
                self._states[texts[row]] = each[: len(numbers[row])].astype("f2")


class Draw:
    """Batches of a collection."""

    def __init__(self, collection: Collection, pieces: WordPieces) -> None:
        self.collection = collection
        self.pairs = sum(map(len, collection.right))
        self._asked: dict[int, list[int]] = {}
        for request, right in enumerate(collection.right):
            for tool in right:
                self._asked.setdefault(tool, []).append(request)
        self._tools = sorted(self._asked)
        rows = vectors(pieces, [collection.tools[tool] for tool in self._tools])
        self._near = np.argsort(-(rows @ rows.T), axis=1)[:, : 5 * NEAREST]

    def pick(self, random: np.random.Generator) -> dict[int, int]:
        """Return some tools that are hard to distinguish, and a request for each."""
        picked: dict[int, int] = {}
        drawn = min(DRAWN, len(self._tools))
        for seed in random.choice(len(self._tools), drawn, replace=False):
            near = [self._tools[row] for row in self._near[seed]]
            for tool in [tool for tool in near if tool not in picked][:NEAREST]:
                picked[tool] = int(random.choice(self._asked[tool]))
        return picked


def train(
    collections: Sequence[Collection], held: Collection, out: Path, *, steps: int, seed: int = 0
) -> None:
    """Train for a number of steps, and write the weights."""
    random = np.random.default_rng(seed)
    encoder = Encoder(base_weights())
    pieces = WordPieces()
    draws = [Draw(each, pieces) for each in collections]
    chances = np.array([min(each.pairs, MOST_PAIRS) for each in draws], float)
    chances /= chances.sum()
    adam = Adam(encoder.learned, decay=DECAY)
    losses, started = [], time.process_time()
    for step in range(steps):
        draw = draws[random.choice(len(draws), p=chances)]
        rate = RATE * min(1, (step + 1) / WARM_UP) * (1 - step / steps)
        loss, slopes = _slopes(encoder, draw.collection, draw.pick(random))
        losses.append(loss)
        size = math.sqrt(sum(float(np.vdot(slope, slope)) for slope in slopes.values()))
        if size > LONGEST_STEP:
            for slope in slopes.values():
                slope *= LONGEST_STEP / size
        adam.step(slopes, dict.fromkeys(slopes, rate))
        if (step + 1) % REPORT == 0:
            recent = sum(losses[-REPORT:]) / REPORT
            print(
                f"step {step + 1}: loss {recent:.3f}, {time.process_time() - started:.0f} CPU s",
                file=sys.stderr,
                flush=True,
            )
        if (step + 1) % KEPT == 0 or step + 1 == steps:
            found = judge(held, encoder.encode(held.requests), encoder.encode(held.tools))
            print(f"held back: {found}", file=sys.stderr, flush=True)
            write_tensors(out, quantized(encoder.weights))


def _slopes(
    encoder: Encoder, collection: Collection, picked: dict[int, int]
) -> tuple[float, dict[str, Array]]:
    tools, requests = list(picked), list(picked.values())
    asked, of_asked = encoder.forward([collection.requests[request] for request in requests])
    told, of_told = encoder.forward([collection.tools[tool] for tool in tools])
    wanted = np.eye(len(tools), dtype="f4")
    right = [collection.right[request] for request in requests]
    # Other right tools of the same request do not count as wrong.
    also = np.array([[tool in each for tool in tools] for each in right]) & (wanted == 0)
    scores = asked @ told.T
    loss, slope = contrast(scores, wanted, TEMPERATURE, left_out=also)
    loss_back, slope_back = contrast(scores.T, wanted, TEMPERATURE, left_out=also.T)
    slope = (TO_TOOLS * slope + (1 - TO_TOOLS) * slope_back.T).astype("f4")
    slopes = {name: np.zeros_like(values) for name, values in encoder.learned.items()}
    encoder.backward(of_asked, slope @ told, slopes)
    encoder.backward(of_told, slope.T @ asked, slopes)
    return TO_TOOLS * loss + (1 - TO_TOOLS) * loss_back, slopes


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--tree", nargs=2, action="append", default=[], type=Path)
    parser.add_argument("--steps", type=int, default=1500)
    arguments = parser.parse_args()
    pool = training_pool()
    collections = [*pool.learned, *(read_tree(*tree) for tree in arguments.tree)]
    for each in collections:
        print(f"{each.name}: {len(each.tools)} tools, {len(each.requests)} requests")
    train(collections, pool.held, arguments.out, steps=arguments.steps)


if __name__ == "__main__":
    main()
