"""Measure the candidates by words and by meaning, with the floor of each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Use one thread, as searches do. numpy reads this when it is loaded.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from index_figures import Figure, Times
from pytools_hybrid.index import SQLiteReader, SQLiteStore
from pytools_hybrid.index.store import StoreCache
from toolembed import StaticEmbedder
from toolindex import IndexReader, ToolFilter
from toolrank import Query

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

__all__ = ["lexical", "nearest"]

_MODEL_ID = StaticEmbedder().model_id
_DEPTH = 100
_ALL = ToolFilter()
_RAW = (
    f"SELECT rowid FROM {IndexReader.FTS_TABLE} WHERE {IndexReader.FTS_TABLE} MATCH ? "
    f"ORDER BY bm25({IndexReader.FTS_TABLE}, 3.0, 1.0, 0.5, 0.75, 1.0) LIMIT {_DEPTH}"
)
_RAW_IN_C = f"SELECT count(*) FROM ({_RAW})"
_SAME = 1e-5
_FIRST = 20


def lexical(database: Path, queries: Sequence[str]) -> list[Figure]:
    """Compare the candidates by words with the bare FTS5 query, without converting its rows."""
    ours, floor = Times(), Times()
    with SQLiteStore(database) as store, store.reading() as reader:
        reader.lexical(queries[0], where=_ALL, depth=_DEPTH)
        for query in queries:
            expression = " OR ".join(f'"{term}"' for term in Query(query).terms)
            ours.add(partial(reader.lexical, query, where=_ALL, depth=_DEPTH))
            floor.add(partial(_raw, reader, expression))
    return ours.figures("lexical candidates", "FTS5 in C", floor)


def nearest(database: Path, queries: Sequence[str]) -> list[Figure]:
    """Compare the candidates by meaning with numpy over the same vectors, in memory."""
    vectors = np.asarray(StaticEmbedder().encode_queries(queries), dtype=np.float32)
    with SQLiteStore(database) as store:
        with store.reading() as reader:
            ids, matrix, categories = _vectors(reader)
        tenth = sorted(set(categories))[::10]
        rows = np.flatnonzero(np.isin(categories, tenth))
        few = ToolFilter(categories=tenth)
        everything = _compared(store, vectors, ids, matrix, _ALL)
        some = _compared(store, vectors, [ids[row] for row in rows], matrix[rows], few)
        first = _first(store, vectors[:_FIRST])
    return [
        *everything.ours.figures("vector candidates", "numpy", everything.floor, aim=3),
        *everything.recalls("recall"),
        *some.ours.figures("vector candidates, a tenth pass", "numpy over all", everything.floor),
        *some.recalls("recall among a tenth"),
        Figure(
            what="vector candidates, without numpy, CPU", value=1000 * min(first.cpu), unit="ms"
        ),
    ]


def _first(store: SQLiteStore, vectors: Vectors) -> Times:
    """Measure the search without numpy, which processes with few searches use."""
    times = Times()
    for vector in vectors:
        with store.reading() as state:
            reader = SQLiteReader(state, StoreCache(word_weights=(), fuzzy_weights=()))
            ask = partial(reader.nearest, vector.tolist(), model_id=_MODEL_ID)
            times.add(partial(ask, where=_ALL, depth=_DEPTH))
    return times


class _Comparison:
    """The times of our search and of numpy, and the recall of ours."""

    def __init__(self) -> None:
        self.ours, self.floor = Times(), Times()
        self._shares: dict[int, list[float]] = {10: [], _DEPTH: []}

    def judge(self, found: Sequence[float], exact: Vectors) -> None:
        """Add the recall, given the exact similarities of the results and of the best tools."""
        for depth, shares in self._shares.items():
            wanted = min(depth, len(exact))
            # Ties count as correct.
            right = sum(value >= exact[wanted - 1] - _SAME for value in found[:wanted])
            shares.append(right / wanted)

    def recalls(self, what: str) -> list[Figure]:
        """Return the mean recall at each depth."""
        return [
            Figure(what=f"{what} at {depth}", value=float(np.mean(shares)), unit="")
            for depth, shares in self._shares.items()
        ]


def _raw(reader: SQLiteReader, expression: str) -> object:
    return reader.connection.execute(_RAW_IN_C, (expression,)).get


def _compared(
    store: SQLiteStore, vectors: Vectors, ids: list[str], matrix: Vectors, where: ToolFilter
) -> _Comparison:
    comparison = _Comparison()
    positions = {id_: position for position, id_ in enumerate(ids)}
    for vector in vectors:
        unit = vector / np.linalg.norm(vector)
        # Make a new reader, as each search does. The first searches of a store use another method.
        with store.reading() as reader:
            ask = partial(reader.nearest, vector.tolist(), model_id=_MODEL_ID)
            ask = partial(ask, where=where, depth=_DEPTH)
            found = ask()
            comparison.ours.add(ask)
        comparison.floor.add(partial(_best, matrix, unit))
        scores = matrix @ unit
        exact = np.sort(scores)[::-1][:_DEPTH]
        comparison.judge([scores[positions[hit.id]] for hit in found], exact)
    return comparison


def _best(matrix: Vectors, vector: Vectors) -> NDArray[Any]:
    scores = matrix @ vector
    if len(scores) <= _DEPTH:
        return np.argsort(-scores)
    chosen = np.argpartition(scores, -_DEPTH)[-_DEPTH:]
    return np.asarray(chosen[np.argsort(-scores[chosen])])


def _vectors(reader: SQLiteReader) -> tuple[list[str], Vectors, list[str]]:
    rows: list[Any] = reader.connection.execute(
        "SELECT e.id, v.vector, e.category FROM entries AS e JOIN embeddings AS v "
        "ON v.model_id = ? AND v.text_hash = e.text_hash ORDER BY e.rowid",
        (_MODEL_ID,),
    ).fetchall()
    ids, blobs, categories = zip(*rows, strict=True)
    matrix = np.frombuffer(b"".join(blobs), dtype="<f4").reshape(len(rows), -1)
    return list(ids), matrix, list(categories)
