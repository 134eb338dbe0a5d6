"""Train the static vectors: a table of word pieces, with all-MiniLM-L6-v2 as the teacher.

usage: PYTHONPATH=benchmarks/quality uv run python -m train.student OUT.safetensors
           [--tree TREE QUERIES]... [--steps N]

A text's vector is the weighted sum of its pieces' vectors, multiplied by the map of its kind and
scaled to unit length. The table starts with the model's vector of each piece alone, in fewer
dimensions (as in model2vec). It learns from requests and the tools that answer them, and from the
model's similarities of whole texts. Penalties keep all parameters near their start, so that those
that the data do not affect stay. Set OPENBLAS_NUM_THREADS=1, or the last digits differ. Prints the
quality on the held-back categories, by vectors alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from toolembed._wordpieces import UNKNOWN, WordPieces

from train.adam import Adam
from train.data import Collection, read_tree, training_pool
from train.judge import judge
from train.losses import contrast, likeness, through_unit, unit
from train.quantize import rounded
from train.teacher import FIRST_PIECE, piece_vectors, vectors
from train.tensors import Array, write_tensors

DIMENSIONS = 256
RATES = {"table": 2e-3, "weight": 4e-3, "query": 1e-3, "document": 1e-3}
TEMPERATURE = 0.05
LIKENESS_TEMPERATURE = 0.1
PULLS = {"table": 30.0, "weight": 3.0, "query": 0.03, "document": 0.03}
TOGETHER = 4
REQUESTS = 128
TOOLS = 200
LONGEST = 200
REPORT = 50
# Texts begin with a tool's name and purpose, so the 20th piece has half of the weight.
HALF_SAY = 20
# Smooth inverse frequency (Arora, Liang & Ma 2017); the vocabulary is ordered by frequency.
_SMOOTH = 1e-4


@dataclass(slots=True)
class Student:
    """The parameters: the start of the table, and the changes since."""

    start: Array
    learned: dict[str, Array]

    @property
    def table(self) -> Array:
        """Return the vectors, multiplied by their weights in a sum."""
        weighted: Array = (self.start + self.learned["table"]) * np.exp(self.learned["weight"])[
            :, None
        ]
        return weighted

    def vectors(self, texts: Sequence[Sequence[int]], kind: str) -> Array:
        """Return a unit vector for each text."""
        counts, pieces = _counts(texts, decay=kind == "document")
        return unit(counts @ self.table[pieces] @ self.learned[kind])[0]


def begin(pieces: WordPieces) -> Array:
    """Return the first table: principal components, with less weight for frequent pieces."""
    rows = piece_vectors(pieces).astype("f8")
    directions = np.linalg.svd(rows[FIRST_PIECE:], full_matrices=False)[2]
    rank = np.arange(2, len(rows) + 2)
    chance = 1 / rank / (1 / rank).sum()
    table = (rows @ directions[:DIMENSIONS].T) * (_SMOOTH / (_SMOOTH + chance))[:, None]
    found: Array = (table / np.linalg.norm(table[FIRST_PIECE:], axis=1).mean()).astype("f4")
    return found


@dataclass(frozen=True, slots=True)
class _Given:
    """A collection split into pieces, and the teacher's vector of each text."""

    collection: Collection
    requests: list[list[int]]
    tools: list[list[int]]
    taught_requests: Array
    taught_tools: Array


def train(
    collections: Sequence[Collection], held: Collection, *, steps: int, seed: int = 0
) -> Student:
    """Return the table and the maps after some steps."""
    random = np.random.default_rng(seed)
    pieces = WordPieces()
    given = [_give(each, pieces) for each in collections]
    asked, told = (_numbers(pieces, texts) for texts in (held.requests, held.tools))
    start = begin(pieces)
    student = Student(
        start=start,
        learned={
            "table": np.zeros_like(start),
            "weight": np.zeros(len(start), "f4"),
            "query": np.eye(DIMENSIONS, dtype="f4"),
            "document": np.eye(DIMENSIONS, dtype="f4"),
        },
    )
    adam = Adam(student.learned)
    loss, started = 0.0, time.process_time()
    for step in range(steps):
        slopes = {name: np.zeros_like(values) for name, values in student.learned.items()}
        for row in random.choice(len(given), min(TOGETHER, len(given)), replace=False):
            loss += _learn(student, given[row], random, slopes) / TOGETHER
        _pull(student, slopes)
        left = 1 - step / steps
        adam.step(slopes, {name: rate * left for name, rate in RATES.items()})
        if (step + 1) % REPORT == 0:
            found = judge(held, student.vectors(asked, "query"), student.vectors(told, "document"))
            seconds = time.process_time() - started
            print(
                f"step {step + 1}: loss {loss / REPORT:.3f}, {seconds:.0f} CPU s;"
                f" held back: {found}",
                file=sys.stderr,
                flush=True,
            )
            loss = 0.0
    return student


def _give(collection: Collection, pieces: WordPieces) -> _Given:
    return _Given(
        collection,
        _numbers(pieces, collection.requests),
        _numbers(pieces, collection.tools),
        vectors(pieces, collection.requests),
        vectors(pieces, collection.tools),
    )


def _numbers(pieces: WordPieces, texts: Sequence[str]) -> list[list[int]]:
    return [pieces.numbers(text)[:LONGEST] or [UNKNOWN] for text in texts]


def _learn(
    student: Student, given: _Given, random: np.random.Generator, slopes: dict[str, Array]
) -> float:
    """Add the gradients of a batch, and return its loss."""
    right = given.collection.right
    batch = random.choice(len(right), min(REQUESTS, len(right)), replace=False)
    others = random.choice(len(given.tools), min(TOOLS, len(given.tools)), replace=False)
    tools = sorted({*others.tolist(), *(tool for row in batch for tool in right[row])})
    column = {tool: place for place, tool in enumerate(tools)}
    wanted = np.zeros((len(batch), len(tools)), "f4")
    for place, row in enumerate(batch):
        for tool in right[row]:
            wanted[place, column[tool]] = 1 / len(right[row])

    of_requests, request_pieces = _counts([given.requests[row] for row in batch], decay=False)
    of_tools, tool_pieces = _counts([given.tools[tool] for tool in tools], decay=True)
    table = student.table
    requests, documents = of_requests @ table[request_pieces], of_tools @ table[tool_pieces]
    query_map, document_map = student.learned["query"], student.learned["document"]
    asked, asked_length = unit(requests @ query_map)
    told, told_length = unit(documents @ document_map)
    loss, slope = contrast(asked @ told.T, wanted, TEMPERATURE)
    of_asked = through_unit(slope @ told, asked, asked_length)
    of_told = through_unit(slope.T @ asked, told, told_length)
    slopes["query"] += requests.T @ of_asked / TOGETHER
    slopes["document"] += documents.T @ of_told / TOGETHER

    both, length = unit(np.concatenate([requests, documents]))
    taught = np.concatenate([given.taught_requests[batch], given.taught_tools[tools]])
    loss_alike, slope = likeness(both, taught, LIKENESS_TEMPERATURE)
    slope = through_unit(slope, both, length)
    slope[: len(batch)] += of_asked @ query_map.T
    slope[len(batch) :] += of_told @ document_map.T
    slope = slope.astype("f4") / TOGETHER
    for counts, pieces, part in (
        (of_requests, request_pieces, slope[: len(batch)]),
        (of_tools, tool_pieces, slope[len(batch) :]),
    ):
        of_rows = counts.T @ part
        slopes["table"][pieces] += of_rows * np.exp(student.learned["weight"][pieces])[:, None]
        slopes["weight"][pieces] += (of_rows * table[pieces]).sum(axis=1)
    return loss + loss_alike


def _pull(student: Student, slopes: dict[str, Array]) -> None:
    """Add the gradients of the penalties for leaving the start."""
    rows = len(student.start)
    slopes["table"] += np.float32(2 * PULLS["table"] / rows) * student.learned["table"]
    slopes["weight"] += np.float32(2 * PULLS["weight"] / rows) * student.learned["weight"]
    for name in ("query", "document"):
        slopes[name] += np.float32(2 * PULLS[name]) * (
            student.learned[name] - np.eye(DIMENSIONS, dtype="f4")
        )


def _counts(texts: Sequence[Sequence[int]], *, decay: bool) -> tuple[Array, Array]:
    """Return how often each text contains each piece, and the pieces that occur."""
    say = 1 / (1 + np.arange(LONGEST) / HALF_SAY) if decay else np.ones(LONGEST)
    flat = np.concatenate([np.asarray(text) for text in texts])
    shares = np.concatenate([say[: len(text)] for text in texts])
    rows = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    pieces, columns = np.unique(flat, return_inverse=True)
    size = len(texts) * len(pieces)
    counts = np.bincount(rows * len(pieces) + columns, weights=shares, minlength=size)
    return counts.reshape(len(texts), len(pieces)).astype("f4"), pieces


def shipped(student: Student) -> dict[str, Array]:
    """Return the tensors to write: the queries' map moves into the table, and out of the other."""
    query_map = student.learned["query"].astype("f8")
    table, scale = rounded((student.table.astype("f8") @ query_map).astype("f4"), 1)
    document_map = np.linalg.solve(query_map, student.learned["document"].astype("f8"))
    return {"table": table, "scale": scale, "document": document_map.astype("f2")}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--tree", nargs=2, action="append", default=[], type=Path)
    parser.add_argument("--steps", type=int, default=200)
    arguments = parser.parse_args()
    pool = training_pool()
    collections = [*pool.learned, *(read_tree(*tree) for tree in arguments.tree)]
    for each in collections:
        print(f"{each.name}: {len(each.tools)} tools, {len(each.requests)} requests")
    write_tensors(arguments.out, shipped(train(collections, pool.held, steps=arguments.steps)))


if __name__ == "__main__":
    main()
