"""The examples of `fit_confidence.py`: the first hits of searches, right and wrong."""

from __future__ import annotations

import json
import math
import random
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pytools_hybrid.search import calibration_of
from toolembed import Embedder, StaticEmbedder, create_embedder, embed_pending
from toolindex import IndexReader, ToolIndex
from toolrank import (
    Contribution,
    Filter,
    HybridSearch,
    IdColumn,
    MatrixRetriever,
    PostingsCache,
    Query,
    Tables,
    linear_fusion,
)
from toolrank._confidence import Evidence, confidence
from toolrank._names import name_share
from toolrank._ranking import Ranker
from toolrank._records import UNITS
from toolscan import scan

FEATURES = {
    "words": ("coverage", "terms", "name_coverage"),
    "vectors": ("contrast",),
    "both": ("coverage", "terms", "contrast"),
    "fuzzy": ("strength",),
}
_MOST_TERMS = 12
_WEIGHTS = {"name_words": 5.0, "parameter_words": 0.75, "alias_words": 0.5}
_FUZZY_WEIGHTS = {**_WEIGHTS, "description": 0.5, "parameter_words": 0.5}
_CONTENT = IdColumn(table=IndexReader.CONTENT_TABLE, column="id")
_NEAR = 0.8
_CHANNELS = {
    "words": {"bm25": 1.0},
    "vectors": {"vector": 1.0},
    "both": {"bm25": 1.0, "vector": 1.0},
    "fuzzy": {"fuzzy": 1.0},
}


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
        self._connection = reader.connection
        self._held = MatrixRetriever(self._connection, vectors.vectors, content=_CONTENT)
        rowids, blobs = zip(*self._connection.execute(vectors.vectors), strict=True)
        self._rowids: tuple[int, ...] = rowids
        self._vectors = np.frombuffer(b"".join(blobs), dtype="<f4").reshape(len(rowids), -1)
        self._postings = PostingsCache()
        rows = self._connection.execute(f"SELECT rowid, id FROM {IndexReader.CONTENT_TABLE}")
        self.ids = {int(rowid): str(id_) for rowid, id_ in rows}

    def without(self, gold: Sequence[str]) -> list[int]:
        """Return the rows without those of the tools that answer."""
        groups = {_group(id_) for id_ in self.ids.values()}
        gone = {_group(id_) for id_ in gold}
        if len(groups) > 1:
            return [row for row, id_ in self.ids.items() if _group(id_) not in gone]
        unit = self._vectors / np.linalg.norm(self._vectors, axis=1, keepdims=True)
        right = [n for n, row in enumerate(self._rowids) if self.ids[row] in gold]
        near = (unit @ unit[right].T).max(axis=1) if right else np.zeros(len(unit))
        return [row for row, cosine in zip(self._rowids, near, strict=True) if cosine <= _NEAR]

    def tables(self, where: Filter | None = None) -> Tables:
        """Return the tables of some rows, as the application searches them."""
        columns = IndexReader.FTS_COLUMNS
        return Tables(
            self._connection,
            IndexReader.FTS_TABLE,
            weights=[_WEIGHTS.get(column, 1.0) for column in columns],
            fuzzy_weights=[_FUZZY_WEIGHTS.get(column, 1.0) for column in columns],
            content=_CONTENT,
            vectors=self._held.using(self._connection, where=where),
            keys=("name_key", "qualified_key"),
            where=where,
            postings=self._postings,
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
        tables = self.tables(where)
        if named := tables.named(query.text)[:3]:
            return [hit.id for hit in named], Evidence(is_exact=True)
        ranking = _RANKER.rank(
            tables, query, _CHANNELS[mode], named={}, usage={}, deprecated={}, depth=10, limit=10
        )
        hits = ranking.hits(ranking.ids[:3])
        if not hits:
            return [], None
        first, why = hits[0], hits[0].explanation
        given = [(query, first.contributions)]
        if why.subquery is not None:
            given.append((query.subqueries[why.subquery], first.subquery_contributions))
        unknown = self._unknown if mode == "both" else 0.0
        found = [_evidence(tables, first.id, *each, FEATURES[mode], unknown) for each in given]
        return [hit.id for hit in hits], max(found, key=confidence)


def _evidence(
    tables: Tables,
    id_: str,
    query: Query,
    contributions: Sequence[Contribution],
    features: Sequence[str],
    unknown: float,
) -> Evidence:
    by_name = {each.retriever: each for each in contributions}
    alike, vector = by_name.get("fuzzy"), by_name.get("vector")
    known: dict[str, Any] = {
        "coverage": tables.coverage(query.text, [id_], unknown=unknown)[id_],
        "terms": len(query.terms),
        "name_coverage": name_share(query.text, _name(id_)),
        "strength": alike.score / tables.scale(query.text) if alike else 0.0,
        "contrast": vector.score - max(vector.rivals, 0.0) if vector else 0.0,
    }
    return Evidence(**{name: known[name] for name in features})


def _group(id_: str) -> str:
    return id_.rpartition(":")[0]


def _name(id_: str) -> str:
    return id_.rpartition(":")[2]


_RANKER = Ranker(
    fuse=partial(linear_fusion, units=UNITS),
    subquery_share=0.3,
    group=_group,
    group_weight=0.3,
    name=_name,
)


async def embedded(
    embedder: Embedder, rows: Iterable[dict[str, Any]], tables: Tables
) -> list[Asked]:
    """Return queries with their vectors and those of their subqueries, corrected as in a search."""
    static = StaticEmbedder()
    asked: list[Asked] = []
    for row in rows:
        text = row["query"]
        found = tables.corrections(text)
        query = Query.of(HybridSearch.correct_spelling(found, text, known=static.knows))
        vectors = [await embedder.embed_query(each) for each in query.texts]
        whole = query.with_vectors(vectors)._replace(text=text)
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
                asked = await embedded(embedder, read(file, at_most=at_most), searched.tables())
                for mode, examples_ in found.items():
                    examples_ += examples(name, tree, searched, asked, mode)
    return found
