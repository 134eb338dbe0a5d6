"""The examples of `fit_confidence.py`: the first hits of searches, right and wrong."""

from __future__ import annotations

import json
import math
import random
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pytools_hybrid.search import calibration_of
from toolembed import Embedder, StaticEmbedder, create_embedder, embed_pending
from toolindex import IndexReader, ToolIndex
from toolrank import (
    BM25Retriever,
    Channel,
    Filter,
    FullTextTable,
    HybridRanker,
    IdColumn,
    MatrixRetriever,
    PostingsCache,
    Query,
)
from toolrank._confidence import Evidence, confidence, lexical_strength
from toolrank._fuzzy import FuzzyRetriever
from toolrank._names import NameRetriever, name_share
from toolrank.steps import Contribution, linear_fusion, query_terms, split_request
from toolscan import scan

FEATURES = {
    "words": ("coverage", "terms", "named"),
    "vectors": ("contrast",),
    "both": ("coverage", "terms", "contrast"),
    "fuzzy": ("strength",),
}
_MOST_TERMS = 12
_WEIGHTS = {"name_words": 5.0, "parameter_words": 0.75, "alias_words": 0.5}
_FUZZY_WEIGHTS = {**_WEIGHTS, "description": 0.5, "parameter_words": 0.5}
_CONTENT = IdColumn(table=IndexReader.CONTENT_TABLE, column="id")
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

    def _table_with(self, weights: Mapping[str, float]) -> FullTextTable:
        return FullTextTable(
            self._connection,
            table=IndexReader.FTS_TABLE,
            weights=[weights.get(column, 1.0) for column in IndexReader.FTS_COLUMNS],
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
            "max_df": 0.3,
            "damping": 0.75,
            "where": where,
        }
        words = BM25Retriever(self._table_with(_WEIGHTS), correction_weight=0.7, **read)
        alike = FuzzyRetriever(self._table_with(_FUZZY_WEIGHTS), **read)
        vectors = self._held.using(self._connection, where=where)
        channels: dict[str, list[Channel]] = {
            "words": [Channel(words)],
            "vectors": [Channel(vectors, missing_score="last")],
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
                FullTextTable(reader.connection, table=IndexReader.FTS_TABLE),
                correction_weight=0.7,
            )
            for name, file in files:
                asked = await embedded(embedder, read(file, at_most=at_most), spelling)
                for mode, examples_ in found.items():
                    examples_ += examples(name, tree, searched, asked, mode)
    return found
