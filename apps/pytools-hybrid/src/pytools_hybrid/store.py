"""The SQLite index as the store that searches run on: toolindex's tables, toolrank's retrievers."""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from toolindex import (
    CONTENT_TABLE,
    FTS_COLUMNS,
    FTS_TABLE,
    DatabaseBusyError,
    DatabaseError,
    ForeignDatabaseError,
    IndexReader,
    NewerSchemaError,
    ToolIndex,
    VectorError,
)
from toolrank import (
    BM25Retriever,
    Content,
    Filter,
    NumpyVectorRetriever,
    Query,
    RetrievalError,
    VectorRetriever,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path

    from toolindex import ToolFilter
    from toolrank import Hit

__all__ = ["SQLiteReader", "SQLiteStore", "open_store"]

_log = logging.getLogger("pytools_hybrid")

_COLUMN_WEIGHTS = {
    "name_words": 3.0,
    "description": 1.0,
    "parameter_words": 0.5,
    "category_words": 0.75,
    "tag_words": 1.0,
}
_WEIGHTS = tuple(_COLUMN_WEIGHTS[column] for column in FTS_COLUMNS)
_CONTENT = Content(table=CONTENT_TABLE, column="id")
# The import of numpy takes as long as what it saves in twenty searches; a command makes one.
_LOOKS_BEFORE_NUMPY = 2


class SQLiteReader(IndexReader):
    """One state of the index, with the candidates that a search asks it for.

    Args:
        reader: That state.
        uses_numpy: Whether to search vectors by numpy, which pays from the second search on.
    """

    def __init__(self, reader: IndexReader, *, uses_numpy: bool) -> None:
        super().__init__(reader.connection, reader.counts)
        self._uses_numpy = uses_numpy

    def lexical(self, query: str, *, where: ToolFilter, depth: int) -> list[Hit]:
        """Give the tools that share words with a query, best first by BM25."""
        retriever = BM25Retriever(
            self.connection,
            table=FTS_TABLE,
            weights=_WEIGHTS,
            content=_CONTENT,
            where=_filter(where),
        )
        return retriever.retrieve(Query(text=query), depth=depth)

    def nearest(
        self, vector: Sequence[float], *, model_id: str, where: ToolFilter, depth: int
    ) -> list[Hit]:
        """Give the tools whose vectors of a model are nearest to a vector, by cosine.

        Raises:
            VectorError: The vector is of another length than the model's.
        """
        table = self.vector_table(model_id)
        if table is None:
            return []
        if len(vector) != table.dimensions:
            raise VectorError(
                model_id, f"gave {len(vector)} dimensions, its vectors here have {table.dimensions}"
            )
        query, allowed = Query(text="", vector=vector), _filter(where)
        if self._uses_numpy:
            retriever = NumpyVectorRetriever(
                self.connection,
                table=table.name,
                unit_length=True,
                content=_CONTENT,
                where=allowed,
            )
            return retriever.retrieve(query, depth=depth)
        return VectorRetriever(
            self.connection, table=table.name, content=_CONTENT, where=allowed
        ).retrieve(query, depth=depth)


class SQLiteStore(ToolIndex):
    """A `toolindex.ToolIndex` that can be searched: the `toolindex.ToolStore` we ship."""

    _looks = 0

    @contextmanager
    def reading(self) -> Generator[SQLiteReader]:
        """Look at one state of the index, whatever others write meanwhile."""
        with super().reading() as reader:
            self._looks += 1
            try:
                yield SQLiteReader(reader, uses_numpy=self._looks > _LOOKS_BEFORE_NUMPY)
            except RetrievalError as error:
                # The driver's own error decides what this one is: damage, a lock, …
                raise DatabaseError(self.path, str(error)) from error.__cause__


def open_store(database: Path, root: Path) -> SQLiteStore:
    """Open the store of one tree, for reading only where nothing can be written.

    Raises:
        DatabaseError: It can be neither written nor read, or is that of another tree.
    """
    store = _opened(database)
    if store.damaged is not None:
        _log.warning("%s was damaged; it was kept as %s and is made anew", database, store.damaged)
    try:
        store.bind(os.fsencode(os.path.realpath(root)).decode("utf-8", "backslashreplace"))
    except DatabaseError:
        store.close()
        raise
    return store


def _opened(database: Path) -> SQLiteStore:
    try:
        return SQLiteStore(database)
    except (DatabaseBusyError, ForeignDatabaseError, NewerSchemaError):
        raise
    except DatabaseError as error:
        # A medium that cannot be written can still be searched.
        try:
            store = SQLiteStore(database, read_only=True)
        except DatabaseError:
            raise error from None
        _log.warning("%s cannot be written; searching it as it is", database)
        return store


def _filter(tools: ToolFilter) -> Filter | None:
    selection = tools.rowids()
    return None if selection is None else Filter(sql=selection[0], parameters=selection[1])
