"""Learn the two linear maps of the offline embedder: one for queries, one for documents.

usage: uv run python benchmarks/quality/train_maps.py OUT.safetensors [--tree TREE QUERIES]...

Trains on the tools and requests of benchmarks/quality/training, and on each TREE with its
QUERIES (JSON lines with `query` and `gold`). A map starts as the identity and is pulled back to
it, so that it changes what the data say often and leaves the rest of the language alone. The
loss is InfoNCE (van den Oord, Li & Vinyals 2018): the softmax over all tools of a collection of
cosine / TEMPERATURE, against a query's right tools. Deterministic.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from toolembed._static import DIMENSIONS, load_tokens, means
from toolscan import ToolId, embedding_text, scan

TEMPERATURE = 0.05
PULL = 0.03
STEPS = 200
BATCH = 256
LEARNING_RATE = 1e-3
TRAINING = Path(__file__).parent / "training"

Matrix = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Collection:
    """Queries and tools before they are mapped.

    Attributes:
        name: What it is called in the output.
        queries: One unit vector a row.
        tools: One unit vector a row.
        right: For each query the rows of the tools that answer it.
    """

    name: str
    queries: Matrix
    tools: Matrix
    right: list[list[int]]


def unit(rows: Matrix) -> Matrix:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def collect(name: str, texts: Sequence[str], judged: Iterable[tuple[str, list[int]]]) -> Collection:
    tokens = load_tokens()
    queries, right = zip(*judged, strict=True)
    return Collection(
        name=name,
        queries=unit(means(tokens, queries, decay=False)),
        tools=unit(means(tokens, texts, decay=True)),
        right=list(right),
    )


def own(letter: str) -> Collection:
    tools = [json.loads(line) for line in (TRAINING / f"tools_{letter}.jsonl").open("rb")]
    place = {(tool["category"], tool["name"]): row for row, tool in enumerate(tools)}
    texts = [
        embedding_text(
            _tool_id(tool["category"], tool["name"]),
            tool["description"],
            [parameter["name"] for parameter in tool["parameters"]],
        )
        for tool in tools
    ]
    judged = [(query, [row]) for row, tool in enumerate(tools) for query in tool["queries"]]
    for line in (TRAINING / f"compound_{letter}.jsonl").open("rb"):
        compound = json.loads(line)
        judged.append((compound["query"], [place[tuple(gold)] for gold in compound["gold"]]))
    return collect(f"own {letter}", texts, judged)


def _tool_id(category: str, name: str) -> ToolId:
    # Some of our tools are called what no file could be.
    words = (part.replace(":", " ").replace("/", " ") for part in (category, name))
    return ToolId(source="mcptools", **dict(zip(("category", "name"), words, strict=True)))


def tree(root: Path, queries: Path) -> Collection:
    records = sorted(scan(root).records, key=lambda record: str(record.id))
    place = {str(record.id): row for row, record in enumerate(records)}
    texts = [
        embedding_text(r.id, r.description, (p.alias or p.name for p in r.parameters), tags=r.tags)
        for r in records
    ]
    judged = [
        (line["query"], right)
        for line in map(json.loads, queries.open("rb"))
        if (right := [place[gold] for gold in line["gold"] if gold in place])
    ]
    return collect(str(root), texts, judged)


def fit(
    collections: Sequence[Collection],
    *,
    pull: float = PULL,
    steps: int = STEPS,
    temperature: float = TEMPERATURE,
) -> tuple[Matrix, Matrix]:
    """Give the query map and the document map, each `(DIMENSIONS, DIMENSIONS)`, by Adam."""
    random = np.random.default_rng(0)
    identity = np.eye(DIMENSIONS)
    maps = [identity.copy(), identity.copy()]
    first = [np.zeros_like(identity) for _ in maps]
    second = [np.zeros_like(identity) for _ in maps]
    for step in range(1, steps + 1):
        gradients = [2 * pull * (map_ - identity) for map_ in maps]
        loss = 0.0
        for collection in collections:
            size = min(BATCH, len(collection.right))
            batch = random.choice(len(collection.right), size, replace=False)
            given, of_queries, of_tools = _step(collection, batch, maps, temperature)
            loss += given / len(collections)
            gradients[0] += of_queries / len(collections)
            gradients[1] += of_tools / len(collections)
        for map_, gradient, mean, square in zip(maps, gradients, first, second, strict=True):
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient**2 - square)
            scale = np.sqrt(square / (1 - 0.999**step)) + 1e-8
            map_ -= LEARNING_RATE * mean / (1 - 0.9**step) / scale
        if step % 20 == 0:
            print(f"step {step}: loss {loss:.4f}", file=sys.stderr)
    return maps[0], maps[1]


def _step(
    collection: Collection,
    batch: np.ndarray[Any, np.dtype[np.int64]],
    maps: Sequence[Matrix],
    temperature: float,
) -> tuple[float, Matrix, Matrix]:
    """Give the loss of a batch and its gradients with respect to the two maps."""
    queries = collection.queries[batch]
    mapped_queries, mapped_tools = queries @ maps[0], collection.tools @ maps[1]
    lengths_q = np.linalg.norm(mapped_queries, axis=1, keepdims=True)
    lengths_t = np.linalg.norm(mapped_tools, axis=1, keepdims=True)
    unit_q, unit_t = mapped_queries / lengths_q, mapped_tools / lengths_t
    logits = unit_q @ unit_t.T / temperature
    logits -= logits.max(axis=1, keepdims=True)
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    target = np.zeros_like(logs)
    for row, query in enumerate(batch):
        target[row, collection.right[query]] = 1 / len(collection.right[query])
    slope = (np.exp(logs) - target) / len(batch) / temperature
    slope_q, slope_t = slope @ unit_t, slope.T @ unit_q
    # Through the normalisation: only what is across the vector changes its direction.
    slope_q = (slope_q - unit_q * (slope_q * unit_q).sum(axis=1, keepdims=True)) / lengths_q
    slope_t = (slope_t - unit_t * (slope_t * unit_t).sum(axis=1, keepdims=True)) / lengths_t
    loss = -float((target * logs).sum()) / len(batch)
    return loss, queries.T @ slope_q, collection.tools.T @ slope_t


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--tree", nargs=2, action="append", default=[], type=Path)
    arguments = parser.parse_args()
    collections = [own(file.stem[-1]) for file in sorted(TRAINING.glob("tools_*.jsonl"))]
    collections += [tree(root, queries) for root, queries in arguments.tree]
    for each in collections:
        print(f"{each.name}: {len(each.tools)} tools, {len(each.right)} queries", file=sys.stderr)
    query_map, document_map = fit(collections)
    halves = {"query": query_map.astype("<f2"), "document": document_map.astype("<f2")}
    save_file(halves, arguments.out)


if __name__ == "__main__":
    main()
