"""Fit the confidence of hits: does the first one answer the request at all?

Each tree is asked its queries twice: as it is, and without the tools that answer (their whole
category; where there is only one, they and those whose vectors are near theirs). The first is a
good answer where a right tool is among the first three, and is left out otherwise; the second
must be no answer. A file of requests that no tool answers can be given too. Each tree has the
same weight, and so have its answerable and its other requests.

    python benchmarks/quality/fit_confidence.py --tree NAME TREE QUERIES --no-answer TREE NAME FILE

prints what is lost and what is falsely answered at some thresholds, where each tree is judged by a
model of the others, then the coefficients of all for `toolrank._confidence`, whose intercepts are
0.8 higher where there are words. Trees of one path are
held out together.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from toolembed import Embedder, create_embedder, embed_pending
from toolembed.providers import OFFLINE
from toolindex import (
    CONTENT_TABLE,
    FTS_COLUMNS,
    FTS_TABLE,
    IndexReader,
    ToolIndex,
)
from toolrank import (
    BM25Retriever,
    Channel,
    Content,
    Filter,
    HybridRanker,
    NumpyVectorRetriever,
    Postings,
    Query,
    RankedHit,
    VectorMatrix,
    lexical_strength,
    linear_fusion,
    split_request,
)
from toolscan import scan

FEATURES = {
    "words": ("strength",),
    "vectors": ("contrast",),
    "both": ("strength", "contrast"),
}
THRESHOLDS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
_WEIGHTS = {"name_words": 5.0, "parameter_words": 0.75}
_CONTENT = Content(table=CONTENT_TABLE, column="id")
_NEAR = 0.8
_FUSE = partial(linear_fusion, units={"bm25": 0.015})


@dataclass(frozen=True, slots=True)
class Example:
    """The first hit of one search.

    Attributes:
        tree: Where it was searched.
        name: The file of its query.
        good: Whether a right tool is among the first three; False where there is none.
        values: The features of its mode, in their order.
    """

    tree: Path
    name: str
    good: bool
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """A query, embedded, with the right tools."""

    query: Query
    gold: tuple[str, ...]


class Tree:
    """An index of a tree in a file, and searches of it without some of its tools."""

    def __init__(self, reader: IndexReader, model_id: str) -> None:
        vectors = reader.vector_table(model_id)
        assert vectors is not None, f"{model_id} made no vectors"
        self._connection, self._table = reader.connection, vectors.name
        self._matrix: VectorMatrix = NumpyVectorRetriever(
            self._connection, table=self._table
        ).read_matrix()
        self._postings = Postings()
        rows = self._connection.execute(f"SELECT rowid, id FROM {CONTENT_TABLE}")
        self.ids = {int(rowid): str(id_) for rowid, id_ in rows}

    def without(self, gold: Sequence[str]) -> list[int]:
        """Give the rows that are left without those that answer."""
        groups = {_group(id_) for id_ in self.ids.values()}
        gone = {_group(id_) for id_ in gold}
        if len(groups) > 1:
            return [row for row, id_ in self.ids.items() if _group(id_) not in gone]
        rowids = self._matrix.rowids.tolist()
        unit = self._matrix.vectors / np.linalg.norm(self._matrix.vectors, axis=1, keepdims=True)
        right = [n for n, row in enumerate(rowids) if self.ids[row] in gold]
        near = (unit @ unit[right].T).max(axis=1) if right else np.zeros(len(rowids))
        return [row for row, cosine in zip(rowids, near, strict=True) if cosine <= _NEAR]

    def first(
        self, query: Query, rows: Sequence[int] | None, mode: str
    ) -> tuple[list[RankedHit], tuple[float, ...]]:
        """Search some rows; give three hits and the features of the first."""
        where = None
        if rows is not None:
            where = Filter(
                sql="SELECT value FROM json_each(?)", parameters=(json.dumps(list(rows)),)
            )
        words = BM25Retriever(
            self._connection,
            table=FTS_TABLE,
            weights=[_WEIGHTS.get(column, 1.0) for column in FTS_COLUMNS],
            content=_CONTENT,
            where=where,
            postings=self._postings,
            common=0.3,
            evenness=0.75,
            similar_weight=0.7,
        )
        vectors = NumpyVectorRetriever(
            self._connection,
            table=self._table,
            content=_CONTENT,
            where=where,
            matrix=self._matrix,
            unit_length=True,
        )
        channels = {"words": [Channel(words)], "vectors": [Channel(vectors, absent="last")]}
        channels["both"] = [*channels["words"], *channels["vectors"]]
        hits = HybridRanker(channels[mode], fuse=_FUSE, group=_group).rank(query, limit=3)
        if not hits:
            return [], ()
        given = {each.retriever: each for each in hits[0].contributions}
        bm25, vector = given.get("bm25"), given.get("vector")
        known = {
            "strength": lexical_strength(bm25.score if bm25 else 0.0, words.statistics(query.text)),
            "contrast": vector.score - vector.background if vector else 0.0,
        }
        return hits, tuple(known[name] for name in FEATURES[mode])


def _group(id_: str) -> str:
    return id_.rpartition(":")[0]


async def embedded(embedder: Embedder, rows: Iterable[dict[str, Any]]) -> list[Asked]:
    """Give queries with their vectors and those of their parts."""

    async def query(text: str, parts: tuple[Query, ...] = ()) -> Query:
        return Query(text=text, vector=await embedder.embed_query(text), parts=parts)

    asked = []
    for row in rows:
        parts = [await query(part) for part in split_request(row["query"])]
        asked.append(Asked(await query(row["query"], tuple(parts)), tuple(row.get("gold") or ())))
    return asked


def read(path: Path, *, at_most: int) -> list[dict[str, Any]]:
    """Read a file of queries, those that choose constants; a sample of many."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    rows = [row for row in rows if row.get("split", "dev") == "dev"]
    return random.Random(0).sample(rows, min(at_most, len(rows)))


def examples(
    name: str, path: Path, tree: Tree, asked: Sequence[Asked], mode: str
) -> Iterator[Example]:
    """Search for each query, with the tools that answer it and without."""
    everything = set(tree.ids.values())
    for each in asked:
        gold = everything.intersection(each.gold)
        if each.gold and not gold:
            continue
        hits, values = tree.first(each.query, None, mode)
        good = any(hit.id in gold for hit in hits)
        if values and (good or not gold):
            yield Example(path, name, good, values)
        if gold and len(rows := tree.without(sorted(gold))) >= 20:
            _, values = tree.first(each.query, rows, mode)
            if values:
                yield Example(path, name, False, values)


def fit(examples: Sequence[Example]) -> np.ndarray[Any, Any]:
    """Fit a logistic model by Newton's method; give its intercept and coefficients."""
    x = np.array([each.values for each in examples])
    y = np.array([each.good for each in examples], dtype=float)
    kinds = [(each.tree, each.good) for each in examples]
    counts = Counter(kinds)
    weights = np.array([1 / counts[kind] for kind in kinds])
    weights /= weights.sum()
    mean, deviation = x.mean(axis=0), x.std(axis=0)
    z = np.column_stack([np.ones(len(x)), (x - mean) / deviation])
    penalty = np.diag([0.0, *[1e-3] * x.shape[1]])
    solution = np.zeros(z.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-z @ solution))
        slope = z.T @ (weights * (p - y)) + penalty @ solution
        solution -= np.linalg.solve((z.T * (weights * p * (1 - p))) @ z + penalty, slope)
    coefficients = solution[1:] / deviation
    return np.array([solution[0] - coefficients @ mean, *coefficients])


def judged(model: np.ndarray[Any, Any], examples: Sequence[Example]) -> list[tuple[float, float]]:
    """Give what share of good answers is lost and of the others is given, by threshold."""
    logits = model[0] + np.array([each.values for each in examples]) @ model[1:]
    confidence = 1 / (1 + np.exp(-logits))
    good = np.array([each.good for each in examples])
    return [
        (
            float(np.mean(confidence[good] < t)) if good.any() else math.nan,
            float(np.mean(confidence[~good] >= t)),
        )
        for t in THRESHOLDS
    ]


def line(name: str, rows: Iterable[tuple[float, float]]) -> None:
    shares = [" / ".join("–" if math.isnan(x) else f"{x:.2f}" for x in row) for row in rows]
    print(f"| {name} | " + " | ".join(shares) + " |")


def table(mode: str, found: Sequence[Example]) -> None:
    """Print what each tree loses, judged by a model of the others, and the model of all."""
    print(f"\n## {mode}: good answers lost / false answers, by threshold; the tree held out\n")
    print("| queries | " + " | ".join(map(str, THRESHOLDS)) + " |")
    print("| --- |" + " --- |" * len(THRESHOLDS))
    model = fit(found)
    rows, fitted = [], []
    for path in dict.fromkeys(each.tree for each in found):
        held = [each for each in found if each.tree == path]
        others = fit([each for each in found if each.tree != path] or held)
        rows.append(judged(others, held))
        fitted.append(judged(model, held))
        for name in dict.fromkeys(each.name for each in held):
            line(name, judged(others, [each for each in held if each.name == name]))
    line("mean of the trees", np.mean(rows, axis=0).tolist())
    line("the same, all in the fit", np.mean(fitted, axis=0).tolist())
    named = dict(zip(FEATURES[mode], (round(float(value), 2) for value in model[1:]), strict=True))
    print(f"\nmodel: {round(float(model[0]), 2)}, {named}")


async def collect(
    tree: Path, files: Sequence[tuple[str, Path]], model: str, *, at_most: int
) -> dict[str, list[Example]]:
    """Index a tree, and search it in every mode for the queries of some files."""
    embedder = create_embedder(model)
    assert embedder is not None, "without a model there are no vectors"
    found: dict[str, list[Example]] = {mode: [] for mode in FEATURES}
    with (
        tempfile.TemporaryDirectory() as folder,
        ToolIndex(Path(folder, "index.db")) as index,
    ):
        index.sync(scan(tree), reader_version="1")
        await embed_pending(index, embedder)
        index.use_model(embedder.model_id)
        with index.reading() as reader:
            searched = Tree(reader, embedder.model_id)
            for name, file in files:
                asked = await embedded(embedder, read(file, at_most=at_most))
                for mode, examples_ in found.items():
                    examples_ += examples(name, tree, searched, asked, mode)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tree",
        nargs=3,
        action="append",
        required=True,
        metavar=("NAME", "TREE", "QUERIES"),
        help="a tree of tools, and queries with gold",
    )
    parser.add_argument(
        "--no-answer",
        nargs=3,
        action="append",
        default=[],
        metavar=("TREE", "NAME", "QUERIES"),
        help="queries that no tool of one of these trees answers",
    )
    parser.add_argument("--at-most", type=int, default=400, help="queries of each file")
    parser.add_argument("--model", default=OFFLINE, help="the embedding model")
    options = parser.parse_args()
    files: dict[Path, list[tuple[str, Path]]] = {}
    for name, tree, queries in options.tree:
        files.setdefault(Path(tree), []).append((name, Path(queries)))
    for tree, name, queries in options.no_answer:
        files.setdefault(Path(tree), []).append((name, Path(queries)))
    found: dict[str, list[Example]] = {mode: [] for mode in FEATURES}
    for path, asked in files.items():
        collected = asyncio.run(collect(path, asked, options.model, at_most=options.at_most))
        for mode, examples_ in collected.items():
            found[mode] += examples_
    for mode, examples_ in found.items():
        table(mode, examples_)


if __name__ == "__main__":
    main()
