"""Fit the confidence of hits: does the first one answer the request at all?

Each tree is searched twice for each of its queries: as it is, and without the tools that answer it
(their whole category; if there is only one, they and the tools with similar vectors). The first
search is a good answer if a right tool is among the first three, and is not used otherwise; the
second must be no answer. Files of requests that no tool answers can be added. All trees have
the same weight, and so have the answerable and the other requests of a tree. Lines with the `split`
`test` are only measured.

    python benchmarks/quality/fit_confidence.py --tree NAME TREE QUERIES \
        --no-answer TREE NAME QUERIES --everyday NAME [--model MODEL]

(benchmarks/quality/README.md has the whole command.) It prints, for each mode, how well good
answers are distinguished from the others, where each tree is judged by a model of the other trees.
Then come the coefficients: those of words for `toolrank._confidence`, those of vectors for its
`Calibration`, or, for a model other than the default, for `pytools_hybrid.search._confidence`.
Their intercept is the one at which `RECOMMENDED_CONFIDENCE` loses 3 % of the good answers to the
everyday requests (10 % by vectors alone). The last table shows which answers searches doubt with
the current coefficients. Trees with the same path are held out together. Hits that the request
names are certain, so they are not used.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pytools_hybrid.search import calibration_of
from toolembed import Embedder, StaticEmbedder, create_embedder, embed_pending
from toolembed.providers import OFFLINE
from toolindex import (
    CONTENT_TABLE,
    FTS_COLUMNS,
    FTS_TABLE,
    IndexReader,
    ToolIndex,
)
from toolrank import (
    RECOMMENDED_CONFIDENCE,
    BM25Retriever,
    Calibration,
    Channel,
    Content,
    Contribution,
    Evidence,
    Filter,
    FullTextTable,
    FuzzyRetriever,
    HybridRanker,
    NameRetriever,
    NumpyVectorRetriever,
    Postings,
    Query,
    VectorMatrix,
    confidence,
    lexical_strength,
    linear_fusion,
    name_share,
    query_terms,
    split_request,
)
from toolscan import scan

FEATURES = {
    "words": ("coverage", "terms", "named"),
    "vectors": ("contrast",),
    "both": ("coverage", "terms", "contrast"),
    "fuzzy": ("strength",),
}
# The share of good answers that may be lost; vectors alone are unreliable among few tools.
LOST = {"words": 0.03, "vectors": 0.1, "both": 0.03, "fuzzy": 0.03}
# Keeps the least certain accepted answer away from the threshold.
_MARGIN = 0.1
_MOST_TERMS = 12
_WEIGHTS = {"name_words": 5.0, "parameter_words": 0.75, "alias_words": 0.5}
_FUZZY_WEIGHTS = {**_WEIGHTS, "description": 0.5, "parameter_words": 0.5}
_CONTENT = Content(table=CONTENT_TABLE, column="id")
_NEAR = 0.8
_FUSE = partial(linear_fusion, units={"bm25": 0.015, "fuzzy": 0.015})
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Example:
    """The first hit of one search.

    Attributes:
        tree: The tree that was searched.
        name: The file of its query.
        split: The split of its query.
        good: Whether a right tool is among the first three; False if there is none.
        whole: Whether the whole tree was searched.
        evidence: The evidence for the hit; None if nothing was found.
    """

    tree: Path
    name: str
    split: str
    good: bool
    whole: bool
    evidence: Evidence | None

    def values(self, mode: str) -> list[float]:
        """Return the features of a mode, in order."""
        known = {name: getattr(self.evidence, name) for name in FEATURES[mode]}
        if "terms" in known:
            known["terms"] = math.log1p(min(known["terms"], _MOST_TERMS))
        return list(known.values())

    @property
    def is_open(self) -> bool:
        """Whether there is a hit to judge."""
        return self.evidence is not None and not self.evidence.is_exact


@dataclass(frozen=True, slots=True)
class Asked:
    """An embedded query with its right tools."""

    query: Query
    gold: tuple[str, ...]
    split: str


class Tree:
    """An index of a tree, which can be searched without some of its tools."""

    def __init__(self, reader: IndexReader, model_id: str) -> None:
        vectors = reader.vector_table(model_id)
        self._unknown = calibration_of(model_id).unknown
        assert vectors is not None, f"{model_id} made no vectors"
        self._connection, self._table = reader.connection, vectors.name
        self._matrix: VectorMatrix = NumpyVectorRetriever(
            self._connection, table=self._table
        ).read_matrix()
        self._postings = Postings()
        rows = self._connection.execute(f"SELECT rowid, id FROM {CONTENT_TABLE}")
        self.ids = {int(rowid): str(id_) for rowid, id_ in rows}

    def without(self, gold: Sequence[str]) -> list[int]:
        """Return the rows without those of the tools that answer."""
        groups = {_group(id_) for id_ in self.ids.values()}
        gone = {_group(id_) for id_ in gold}
        if len(groups) > 1:
            return [row for row, id_ in self.ids.items() if _group(id_) not in gone]
        rowids = self._matrix.rowids.tolist()
        unit = self._matrix.vectors / np.linalg.norm(self._matrix.vectors, axis=1, keepdims=True)
        right = [n for n, row in enumerate(rowids) if self.ids[row] in gold]
        near = (unit @ unit[right].T).max(axis=1) if right else np.zeros(len(rowids))
        return [row for row, cosine in zip(rowids, near, strict=True) if cosine <= _NEAR]

    def _table_with(self, weights: Mapping[str, float]) -> FullTextTable:
        return FullTextTable(
            self._connection,
            table=FTS_TABLE,
            weights=[weights.get(column, 1.0) for column in FTS_COLUMNS],
            content=_CONTENT,
        )

    def first(
        self, query: Query, rows: Sequence[int] | None, mode: str
    ) -> tuple[list[str], Evidence | None]:
        """Search some rows, and return three ids and the evidence for the first."""
        where = None
        if rows is not None:
            where = Filter(
                sql="SELECT value FROM json_each(?)",
                parameters=(json.dumps(list(rows)),),
                rows=frozenset(rows),
            )
        common: dict[str, Any] = {"content": _CONTENT, "where": where}
        names = NameRetriever(self._connection, keys=("name_key", "qualified_key"), **common)
        if named := names.retrieve(query, depth=3):
            return [hit.id for hit in named], Evidence(is_exact=True)
        read: dict[str, Any] = {
            "postings": self._postings,
            "common": 0.3,
            "evenness": 0.75,
            "where": where,
        }
        words = BM25Retriever(self._table_with(_WEIGHTS), similar_weight=0.7, **read)
        alike = FuzzyRetriever(self._table_with(_FUZZY_WEIGHTS), **read)
        vectors = NumpyVectorRetriever(
            self._connection, table=self._table, matrix=self._matrix, unit_length=True, **common
        )
        channels: dict[str, list[Channel]] = {
            "words": [Channel(words)],
            "vectors": [Channel(vectors, absent="last")],
            "fuzzy": [Channel(alike)],
        }
        channels["both"] = [*channels["words"], *channels["vectors"]]
        ranker = HybridRanker(channels[mode], fuse=_FUSE, group=_group, name=_name)
        hits = ranker.rank(query, limit=10)[:3]
        if not hits:
            return [], None
        first, why = hits[0], hits[0].explanation
        given = [(query.text, first.contributions)]
        if why is not None and why.part is not None:
            given.append((query.parts[why.part].text, first.part_contributions))
        unknown = self._unknown if mode == "both" else 0.0
        found = [_evidence(words, first.id, *each, FEATURES[mode], unknown) for each in given]
        return [hit.id for hit in hits], max(found, key=confidence)


def _evidence(
    words: BM25Retriever,
    id_: str,
    text: str,
    contributions: Sequence[Contribution],
    features: Sequence[str],
    unknown: float,
) -> Evidence:
    by_name = {each.retriever: each for each in contributions}
    alike, vector = by_name.get("fuzzy"), by_name.get("vector")
    known: dict[str, Any] = {
        "coverage": words.coverage(text, [id_], unknown=unknown)[id_],
        "terms": len(query_terms(text)),
        "named": name_share(text, _name(id_)),
        "strength": lexical_strength(alike.score if alike else 0.0, words.statistics(text)),
        "contrast": vector.score - max(vector.rivals, 0.0) if vector else 0.0,
    }
    return Evidence(**{name: known[name] for name in features})


def _group(id_: str) -> str:
    return id_.rpartition(":")[0]


def _name(id_: str) -> str:
    return id_.rpartition(":")[2]


async def embedded(
    embedder: Embedder, rows: Iterable[dict[str, Any]], spelling: BM25Retriever
) -> list[Asked]:
    """Return queries with their vectors and those of their parts, corrected as in a search."""
    static = StaticEmbedder()

    async def query(text: str, parts: tuple[Query, ...] = ()) -> Query:
        found = spelling.corrections(text)
        known = {word: it for word, it in found.items() if not static.knows(word)}
        right = _WORD.sub(lambda word: known.get(word[0].lower(), word[0]), text)
        return Query(text=text, vector=await embedder.embed_query(right), parts=parts)

    asked: list[Asked] = []
    for row in rows:
        parts = [await query(part) for part in split_request(row["query"])]
        whole = await query(row["query"], tuple(parts))
        asked.append(Asked(whole, tuple(row.get("gold") or ()), row.get("split", "dev")))
    return asked


def read(path: Path, *, at_most: int) -> list[dict[str, Any]]:
    """Read a file of queries, or a sample if it has many."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return random.Random(0).sample(rows, min(at_most, len(rows)))


def examples(
    name: str, path: Path, tree: Tree, asked: Sequence[Asked], mode: str
) -> Iterator[Example]:
    """Search for each query, with and without the tools that answer it."""
    everything = set(tree.ids.values())
    for each in asked:
        gold = everything.intersection(each.gold)
        if each.gold and not gold:
            continue
        ids, evidence = tree.first(each.query, None, mode)
        good = bool(gold.intersection(ids))
        if good or not gold:
            yield Example(path, name, each.split, good, True, evidence)
        if gold and len(rows := tree.without(sorted(gold))) >= 20:
            _, evidence = tree.first(each.query, rows, mode)
            yield Example(path, name, each.split, False, False, evidence)


def fit(mode: str, examples: Sequence[Example]) -> np.ndarray[Any, Any]:
    """Fit a logistic model by Newton's method, and return its intercept and coefficients."""
    examples = [each for each in examples if each.split == "dev" and each.is_open]
    x = np.array([each.values(mode) for each in examples])
    y = np.array([each.good for each in examples], dtype=float)
    kinds = [(each.tree, each.good) for each in examples]
    counts = Counter(kinds)
    weights = np.array([1 / counts[kind] for kind in kinds])
    weights /= weights.sum()
    mean, deviation = x.mean(axis=0), x.std(axis=0)
    z = np.column_stack([np.ones(len(x)), (x - mean) / deviation])
    penalty: np.ndarray[Any, Any] = np.diag([0.0, *[1e-3] * x.shape[1]])
    solution: np.ndarray[Any, Any] = np.zeros(z.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-z @ solution))
        slope = z.T @ (weights * (p - y)) + penalty @ solution
        curvature = (z.T * (weights * p * (1 - p))) @ z + penalty
        solution = np.subtract(solution, np.linalg.solve(curvature, slope))
    coefficients = solution[1:] / deviation
    return np.array([solution[0] - coefficients @ mean, *coefficients])


def logit(mode: str, model: np.ndarray[Any, Any], example: Example) -> float:
    if not example.is_open:
        return -math.inf if example.evidence is None else math.inf
    return float(model[0] + np.array(example.values(mode)) @ model[1:])


def told_apart(mode: str, model: np.ndarray[Any, Any], examples: Sequence[Example]) -> float:
    """Return the area under the ROC curve: how often a good answer has the higher confidence."""
    sure = {
        good: np.array([logit(mode, model, each) for each in examples if each.good == good])
        for good in (True, False)
    }
    return float((sure[True][:, None] > sure[False][None]).mean())


def moved(mode: str, model: np.ndarray[Any, Any], everyday: Sequence[Example]) -> float:
    """Return the intercept at which a given share of good everyday answers is doubted."""
    sure = sorted(logit(mode, model, each) for each in everyday if each.good)
    return float(model[0]) - sure[int(LOST[mode] * len(sure))] + _MARGIN


def table(mode: str, found: Sequence[Example], everyday: str) -> None:
    """Print how well a model of the other trees judges each tree, and the model of all trees."""
    print(f"\n## {mode}\n\n| tree held out | told apart |\n| --- | --: |")
    for path in dict.fromkeys(each.tree for each in found):
        held = [each for each in found if each.tree == path]
        others = fit(mode, [each for each in found if each.tree != path] or held)
        names = ", ".join(dict.fromkeys(each.name for each in held))
        print(f"| {names} | {told_apart(mode, others, held):.3f} |")
    model = fit(mode, found)
    intercept = moved(
        mode, model, [each for each in found if each.name == everyday and each.split == "dev"]
    )
    named = {
        name: round(float(value), 2) for name, value in zip(FEATURES[mode], model[1:], strict=True)
    }
    print(f"\nmodel: {intercept:.2f}, {named}")


def doubted(found: dict[str, list[Example]], calibration: Calibration) -> None:
    """Print the share of doubted answers, by file and split."""
    print(f"\n## Doubted as it is now (confidence below {RECOMMENDED_CONFIDENCE})\n")
    print("| requests | split | " + " | ".join(FEATURES) + " |")
    print("| --- | --- |" + " --: |" * len(FEATURES))
    kinds = {
        (each.name, each.split, each.good) for mode in found.values() for each in mode if each.whole
    }
    for name, split, good in sorted(kinds, key=lambda kind: (kind[2], *kind)):
        cells: list[str] = []
        for examples_ in found.values():
            sure = [
                0.0 if each.evidence is None else confidence(each.evidence, calibration=calibration)
                for each in examples_
                if each.whole and (each.name, each.split, each.good) == (name, split, good)
            ]
            doubt = sum(it < RECOMMENDED_CONFIDENCE for it in sure)
            cells.append(f"{doubt} of {len(sure)} ({100 * doubt / max(1, len(sure)):.1f} %)")
        what = "good answers" if good else "no tool answers"
        print(f"| {name}, {what} | {split} | " + " | ".join(cells) + " |")


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
            spelling = BM25Retriever(
                FullTextTable(reader.connection, table=FTS_TABLE), similar_weight=0.7
            )
            for name, file in files:
                asked = await embedded(embedder, read(file, at_most=at_most), spelling)
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
    parser.add_argument("--everyday", required=True, help="the NAME of everyday requests")
    parser.add_argument(
        "--at-most", type=int, default=400, help="maximum number of queries per file"
    )
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
        table(mode, examples_, options.everyday)
    doubted(found, calibration_of(options.model))


if __name__ == "__main__":
    main()
