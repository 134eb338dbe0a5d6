"""A searchable store: toolindex's tables as toolrank's, as in the application.

The tests of toolindex-postgres use it for their copies too.
"""

from __future__ import annotations

from contextlib import contextmanager

from toolindex import IndexReader, ToolIndex
from toolrank import Filter, IdColumn, MatrixRetriever, Tables

CONTENT = IdColumn(table=IndexReader.CONTENT_TABLE, column="id")
WEIGHTS = (5.0, 1.0, 0.75, 1.0, 1.0, 1.0, 0.5)


class SQLiteReader(IndexReader):
    def lexical(self, query, *, where, depth):
        return self._rows(where).lexical(query, depth=depth)

    def named(self, query, *, where):
        return self._rows(where).named(query)

    def fuzzy(self, query, *, where, depth):
        return self._rows(where).fuzzy(query, depth=depth)

    def corrections(self, query):
        return self._rows().corrections(query)

    def terms(self, query, ids):
        return {
            id_: {match.term: match.score for match in matches}
            for id_, matches in self._rows().matches(query, ids).items()
        }

    def lexical_coverage(self, query, ids, *, unknown=0.0):
        return self._rows().coverage(query, ids, unknown=unknown)

    def lexical_scale(self, query):
        return self._rows().scale(query)

    def nearest(self, vector, *, model_id, where, depth, then=()):
        if not self.coverage(model_id, dimensions=len(vector)).vectors:
            return []
        vectors = self.vector_table(model_id, dimensions=len(vector))
        if vectors is None:
            kept = self.durable_vectors(model_id, dimensions=len(vector))
            held = MatrixRetriever(self.connection, *kept, content=CONTENT)
            vectors = held.using(self.connection, where=self._filter(where))
        else:
            vectors = vectors.name
        return self._rows(where, vectors=vectors).nearest(vector, depth=depth)

    def _rows(self, where=None, vectors=None):
        return Tables(
            self.connection,
            IndexReader.FTS_TABLE,
            weights=WEIGHTS,
            content=CONTENT,
            vectors=vectors,
            keys=("name_key", "qualified_key"),
            where=None if where is None else self._filter(where),
        )

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
