"""The SQLite store for searches: toolindex's tables with toolrank's retrievers."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from toolindex import DamagedDatabaseError, IndexReader, ToolFilter, ToolIndex
from toolrank import (
    Filter,
    IdColumn,
    MatrixRetriever,
    PostingsCache,
    Tables,
)
from toolrank.errors import RetrievalError

from pytools_hybrid.index._bm25_weights import ColumnWeights

if TYPE_CHECKING:
    import os
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from toolindex import Coverage
    from toolrank import Hit

    # The values of IndexReader.state_of(): the state of the words, and of a model's vectors.
    _State = tuple[int, int]
    _Matrices = dict[tuple[str, int], tuple[_State, MatrixRetriever]]
    _Postings = dict[_State, PostingsCache]
    _Filters = dict[tuple[_State, int, ToolFilter], Filter]

_CONTENT = IdColumn(table=IndexReader.CONTENT_TABLE, column="id")
_KEYS = ("name_key", "qualified_key")
_EVERY = ToolFilter()
# Numbers of four bytes, so up to 1 GB; sqlite-vec searches larger tables.
_IN_MEMORY = 1 << 28
# Of larger tables, only the ids of tools that were found are kept in memory.
_ALL_IDS = 8 << 20
# Importing numpy takes as long as it saves in twenty searches, and a command makes one.
_LOOKS_BEFORE_NUMPY = 2
# Each has 16 bytes: 16 MB, and more above 100,000 tools, where a few common words would fill it.
_LEAST_POSTINGS = 1_000_000
_POSTINGS_PER_TOOL = 10
# For ten thousand tools, one takes about 500 kB.
_FILTERS = 16


class SQLiteReader(IndexReader):
    """One state of the index, from which a search gets its candidates.

    Args:
        postings: Cached postings of the full-text table, by state.
        filters: Cached results of filters, by state.
        matrices: The vectors of models and lengths in memory, each with its state.
        looks: Counts the states in which vectors were searched: the first ones do without numpy.
        weights: How much words count in each column.
    """

    def __init__(
        self,
        reader: IndexReader,
        postings: _Postings,
        filters: _Filters,
        matrices: _Matrices,
        looks: Iterator[int],
        weights: ColumnWeights,
    ) -> None:
        super().__init__(reader.connection, reader.counts)
        self._postings = postings
        self._filters = filters
        self._matrices = matrices
        self._looks = looks
        self._weights = weights
        self._uses_numpy: bool | None = None
        self._by_filter: dict[ToolFilter, Tables] = {}
        self._by_vector: dict[object, Tables | MatrixRetriever | None] = {}

    def lexical(self, query: str, *, where: ToolFilter, depth: int) -> list[Hit]:
        """Return the tools that share words with a query, best first by BM25."""
        return self._candidates(where).lexical(query, depth=depth)

    def named(self, query: str, *, where: ToolFilter) -> list[Hit]:
        """Return the tools that a query mentions, exact names first."""
        return self._candidates(where).named(query)

    def corrections(self, query: str) -> dict[str, str]:
        """Return the words of a query that no tool has, with their corrections."""
        return self._candidates().corrections(query)

    def terms(self, query: str, ids: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return the terms of a query that some tools have, each with its part of the score."""
        return {
            id_: {
                match.term
                if match.term == match.matched
                else f"{match.term}→{match.matched}": match.score
                for match in matches
            }
            for id_, matches in self._candidates().matches(query, ids).items()
        }

    def lexical_coverage(
        self, query: str, ids: Sequence[str], *, unknown: float = 0.0
    ) -> dict[str, float]:
        """Return the share of a query's terms that some tools have; rare terms count the most."""
        return self._candidates().coverage(query, ids, unknown=unknown)

    def lexical_scale(self, query: str) -> float:
        """Return the divisor that makes scores by words comparable between queries."""
        return self._candidates().scale(query)

    def fuzzy(self, query: str, *, where: ToolFilter, depth: int) -> list[Hit]:
        """Return the tools with words similar to a query's, best first; names count the most."""
        return self._candidates(where).fuzzy(query, depth=depth)

    def _candidates(self, where: ToolFilter = _EVERY) -> Tables:
        if where not in self._by_filter:
            self._by_filter[where] = Tables(
                self.connection,
                self.FTS_TABLE,
                weights=self._weights.words,
                fuzzy_weights=self._weights.fuzzy,
                content=_CONTENT,
                keys=_KEYS,
                where=self._filter(where),
                postings=self._remembered(),
            )
        return self._by_filter[where]

    def _filter(self, tools: ToolFilter) -> Filter | None:
        """Compute the result of a filter once, because every channel and part needs it."""
        selection = self.rowids(tools)
        if selection is None:
            return None
        sql, parameters = selection
        key = self.state_of(), self.usage_generation() if tools.uses_outcomes else 0, tools
        if (known := self._filters.get(key)) is None:
            if len(self._filters) >= _FILTERS:
                self._filters.clear()
            rows = frozenset(row for (row,) in self.connection.execute(sql, parameters))
            known = self._filters[key] = Filter(sql=sql, parameters=parameters, rows=rows)
        return known

    def _remembered(self) -> PostingsCache:
        state = self.state_of()
        if state not in self._postings:
            # Past states are not needed again.
            self._postings.clear()
        if (known := self._postings.get(state)) is None:
            rows = max(_LEAST_POSTINGS, _POSTINGS_PER_TOOL * self._newest())
            known = self._postings.setdefault(state, PostingsCache(max_rows=rows))
        return known

    def _newest(self) -> int:
        # About the number of tools, read from a single page.
        return self.connection.execute("SELECT max(rowid) FROM entries").get or 0

    def _all_ids(self) -> dict[int, str]:
        """Return all ids by rowid, read at once: otherwise every search would fetch some."""

        def read() -> dict[int, str]:
            ids = self._candidates().ids
            rows = self.connection.execute("SELECT rowid, id FROM entries")
            ids.update((row, str(id_)) for row, id_ in rows)
            return ids

        return self._remembered().cached_fact("all ids", read)

    def coverage(self, model_id: str, *, dimensions: int | None = None) -> Coverage:
        """Count the tools, and those with a vector of a model."""
        coverage = super().coverage(model_id, dimensions=dimensions)
        has_table = self.vector_table(model_id, dimensions=dimensions) is not None
        if coverage.vectors and not has_table and not has_numpy():
            return replace(coverage, vectors=0)
        return coverage

    def nearest(
        self,
        vector: Sequence[float],
        *,
        model_id: str,
        where: ToolFilter,
        depth: int,
        then: Sequence[Sequence[float]] = (),
    ) -> list[Hit]:
        """Return the tools whose vectors of a model are nearest to a vector, by cosine.

        If the model has changed the length of its vectors, only those of the same length count.
        """
        key = model_id, len(vector), where
        try:
            if key not in self._by_vector:
                self._by_vector[key] = self._meaning(*key)
            if (vectors := self._by_vector[key]) is None:
                return []
            return vectors.nearest(vector, depth=depth, then=then)
        except RetrievalError as error:
            # The index translates the driver's errors.
            if isinstance(error.__cause__, ValueError | LookupError):
                raise DamagedDatabaseError(Path(self.connection.filename)) from error
            raise

    def _meaning(
        self, model_id: str, dimensions: int, where: ToolFilter
    ) -> Tables | MatrixRetriever | None:
        if self.coverage(model_id, dimensions=dimensions).vectors == 0:
            return None
        allowed = self._filter(where)
        table = self.vector_table(model_id, dimensions=dimensions)
        if self._uses_numpy is None:
            self._uses_numpy = next(self._looks) >= _LOOKS_BEFORE_NUMPY and has_numpy()
        is_large = self._newest() * dimensions > _IN_MEMORY
        if table is not None and (is_large or not self._uses_numpy):
            return Tables(
                self.connection,
                self.FTS_TABLE,
                content=_CONTENT,
                vectors=table.name,
                where=allowed,
            )
        held = self._matrix(model_id, dimensions)
        return held.using(self.connection, where=allowed)

    def _matrix(self, model_id: str, dimensions: int) -> MatrixRetriever:
        state = self.state_of(model_id)
        then, previous = self._matrices.get((model_id, dimensions), (None, None))
        if previous is not None and then == state:
            return previous
        # Other models' past states are hardly needed again.
        for key, (past, _) in list(self._matrices.items()):
            if past != self.state_of(key[0]):
                self._matrices.pop(key, None)
        is_small = self._newest() * dimensions <= _ALL_IDS
        ids = self._all_ids() if is_small else self._candidates().ids
        if (table := self.vector_table(model_id, dimensions=dimensions)) is None:
            kept = self.durable_vectors(model_id, dimensions=dimensions)
            held = MatrixRetriever(self.connection, *kept, content=_CONTENT, ids=ids)
        else:
            held = MatrixRetriever(
                self.connection,
                table.vectors,
                versions=table.versions,
                previous=previous,
                content=_CONTENT,
                ids=ids,
            )
        self._matrices[model_id, dimensions] = state, held
        return held


class SQLiteStore(ToolIndex):
    """A `toolindex.ToolIndex` that can be searched: our own `toolindex.ToolStore`.

    Args:
        field_weights: How much words count in parts of a tool ("name", "description", "parameters",
            "category", "tags"), instead of the defaults.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        field_weights: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(path, read_only=read_only)
        self._weights = ColumnWeights.of(field_weights or {})
        self._looks = count()
        self._postings: _Postings = {}
        self._filters: _Filters = {}
        self._matrices: _Matrices = {}

    def vector_notes(self) -> tuple[str, ...]:
        """Return notes on limitations of vector search."""
        if not self.extension_problem:
            return ()
        instead = (
            ": vectors are searched with numpy instead"
            if has_numpy()
            else ", and numpy cannot be imported, so searches use words alone"
        )
        return (
            f"sqlite-vec cannot be loaded ({self.extension_problem}){instead}; "
            "`pytools-hybrid doctor` says what to do",
        )

    @contextmanager
    def reading(self) -> Generator[SQLiteReader]:
        """Read one consistent state of the index."""
        with super().reading() as reader:
            yield SQLiteReader(
                reader,
                self._postings,
                self._filters,
                self._matrices,
                self._looks,
                self._weights,
            )


@cache
def has_numpy() -> bool:
    """Return whether numpy can be imported; the first time takes a tenth of a second."""
    try:
        import numpy as _  # noqa: F401
    except ImportError:
        return False
    return True
