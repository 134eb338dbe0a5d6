"""The SQLite store for searches: toolindex's tables with toolrank's retrievers."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
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

if TYPE_CHECKING:
    import os
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from toolindex import Coverage
    from toolrank import Hit

    # The values of IndexReader.state_of(): the state of the words, and of a model's vectors.
    _State = tuple[int, int]

# Chosen by ablation: docs/decisions/0008.
_COLUMN_WEIGHTS = {
    "name_words": 5.0,
    "description": 1.0,
    "parameter_words": 0.75,
    "category_words": 1.0,
    "tag_words": 1.0,
    "segments": 1.0,
    # Aliases of some tools must not hide the other tools: docs/decisions/0013.
    "alias_words": 0.5,
}
# People who type part of a word mean a name: docs/decisions/0010.
_FUZZY_COLUMN_WEIGHTS = {**_COLUMN_WEIGHTS, "description": 0.5, "parameter_words": 0.5}
_FIELDS = {
    "name": "name_words",
    "description": "description",
    "parameters": "parameter_words",
    "category": "category_words",
    "tags": "tag_words",
}
_CONTENT = IdColumn(table=IndexReader.CONTENT_TABLE, column="id")
_KEYS = ("name_key", "qualified_key")
_EVERY = ToolFilter()
# Numbers of four bytes, so up to 1 GB; sqlite-vec searches larger tables.
_IN_MEMORY = 1 << 28
# Of larger tables, only the ids of tools that were found are kept in memory.
_ALL_IDS = 8 << 20
# Importing numpy takes as long as it saves in twenty searches, and a command makes one.
_SEARCHES_BEFORE_NUMPY = 2
# Each has 16 bytes: 16 MB, and more above 100,000 tools, where a few common words would fill it.
_LEAST_POSTINGS = 1_000_000
_POSTINGS_PER_TOOL = 10
# For ten thousand tools, one takes about 500 kB.
_FILTERS = 16


@dataclass(slots=True)
class StoreCache:
    """What the readers of a store share.

    Attributes:
        word_weights: How much words count in the columns of the full-text table, in their order.
        fuzzy_weights: The same for the mode `fuzzy`.
        postings: The postings of the full-text table, by state.
        filters: The results of filters, by state.
        matrices: The vectors of models and lengths in memory, each with its state.
        vector_searches: Counts the readers that searched vectors: the first do without numpy.
    """

    word_weights: tuple[float, ...]
    fuzzy_weights: tuple[float, ...]
    postings: dict[_State, PostingsCache] = field(default_factory=dict)
    filters: dict[tuple[_State, int, ToolFilter], Filter] = field(default_factory=dict)
    matrices: dict[tuple[str, int], tuple[_State, MatrixRetriever]] = field(default_factory=dict)
    vector_searches: Iterator[int] = field(default_factory=count)


class SQLiteReader(IndexReader):
    """One state of the index, from which a search gets its candidates."""

    def __init__(self, reader: IndexReader, cache: StoreCache) -> None:
        super().__init__(reader.connection, reader.counts)
        self._shared = cache
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
                weights=self._shared.word_weights,
                fuzzy_weights=self._shared.fuzzy_weights,
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
        if (known := self._shared.filters.get(key)) is None:
            if len(self._shared.filters) >= _FILTERS:
                self._shared.filters.clear()
            rows = frozenset(row for (row,) in self.connection.execute(sql, parameters))
            known = self._shared.filters[key] = Filter(sql=sql, parameters=parameters, rows=rows)
        return known

    def _remembered(self) -> PostingsCache:
        state = self.state_of()
        if (known := self._shared.postings.get(state)) is None:
            # Past states are not needed again.
            self._shared.postings.clear()
            rows = max(_LEAST_POSTINGS, _POSTINGS_PER_TOOL * self._newest())
            known = self._shared.postings.setdefault(state, PostingsCache(max_rows=rows))
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
            self._uses_numpy = (
                next(self._shared.vector_searches) >= _SEARCHES_BEFORE_NUMPY and has_numpy()
            )
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
        then, previous = self._shared.matrices.get((model_id, dimensions), (None, None))
        if previous is not None and then == state:
            return previous
        # Other models' past states are hardly needed again.
        for key, (past, _) in list(self._shared.matrices.items()):
            if past != self.state_of(key[0]):
                self._shared.matrices.pop(key, None)
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
        self._shared.matrices[model_id, dimensions] = state, held
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
        own = {_FIELDS[name]: weight for name, weight in (field_weights or {}).items()}
        self._shared = StoreCache(
            _by_column(_COLUMN_WEIGHTS | own), _by_column(_FUZZY_COLUMN_WEIGHTS | own)
        )

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
            yield SQLiteReader(reader, self._shared)


def _by_column(weights: Mapping[str, float]) -> tuple[float, ...]:
    return tuple(weights[column] for column in IndexReader.FTS_COLUMNS)


@cache
def has_numpy() -> bool:
    """Return whether numpy can be imported; the first time takes a tenth of a second."""
    try:
        import numpy as _  # noqa: F401
    except ImportError:
        return False
    return True
