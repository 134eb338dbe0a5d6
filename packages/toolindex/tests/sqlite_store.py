"""A searchable store: toolindex's tables with toolrank's retrievers, as in the application.

The tests of toolindex-postgres use it for their copies too.
"""

from __future__ import annotations

from contextlib import contextmanager

from toolindex import CONTENT_TABLE, FTS_TABLE, IndexReader, ToolIndex
from toolrank import (
    BM25Retriever,
    Content,
    Filter,
    FullTextTable,
    FuzzyRetriever,
    NameRetriever,
    NumpyVectorRetriever,
    Query,
    VectorRetriever,
    VectorRows,
    lexical_strength,
)

CONTENT = Content(table=CONTENT_TABLE, column="id")
WEIGHTS = (5.0, 1.0, 0.75, 1.0, 1.0, 1.0, 0.5)


class SQLiteReader(IndexReader):
    def lexical(self, query, *, where, depth):
        return self._words(where).retrieve(Query(text=query), depth=depth)

    def named(self, query, *, where):
        keys = ("name_key", "qualified_key")
        retriever = NameRetriever(
            self.connection, content=CONTENT, keys=keys, where=self._filter(where)
        )
        return retriever.retrieve(Query(text=query), depth=50)

    def fuzzy(self, query, *, where, depth):
        retriever = FuzzyRetriever(self._table(), where=self._filter(where))
        return retriever.retrieve(Query(text=query), depth=depth)

    def corrections(self, query):
        return self._words().corrections(query)

    def terms(self, query, ids):
        return {
            id_: {match.term: match.score for match in matches}
            for id_, matches in self._words().matches(query, ids).items()
        }

    def lexical_coverage(self, query, ids, *, unknown=0.0):
        return self._words().coverage(query, ids, unknown=unknown)

    def lexical_scale(self, query):
        one = lexical_strength(1.0, self._words().statistics(query))
        return 1 / one if one else 0.0

    def nearest(self, vector, *, model_id, where, depth, then=()):
        if not self.coverage(model_id, dimensions=len(vector)).vectors:
            return []
        query, allowed = Query(text="", vector=vector), self._filter(where)
        table = self.vector_table(model_id, dimensions=len(vector))
        if table is None:
            rows = VectorRows(*self.kept_vectors(model_id, dimensions=len(vector)))
            return NumpyVectorRetriever(
                self.connection, table=rows, unit_length=True, content=CONTENT, where=allowed
            ).retrieve(query, depth=depth)
        return VectorRetriever(
            self.connection, table=table.name, content=CONTENT, where=allowed
        ).retrieve(query, depth=depth)

    def _words(self, where=None):
        allowed = None if where is None else self._filter(where)
        return BM25Retriever(self._table(), where=allowed)

    def _table(self):
        return FullTextTable(self.connection, table=FTS_TABLE, weights=WEIGHTS, content=CONTENT)

    def _filter(self, where):
        selection = self.rowids(where)
        if selection is None:
            return None
        sql, values = selection
        rows = frozenset(row for (row,) in self.connection.execute(sql, values))
        return Filter(sql=sql, parameters=values, rows=rows)


class SQLiteStore(ToolIndex):
    @contextmanager
    def reading(self):
        with super().reading() as reader:
            yield SQLiteReader(reader.connection, reader.counts)

    def vector_notes(self):
        return ()
