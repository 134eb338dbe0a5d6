"""Reading one state of the index."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from toolindex._filters import rowids
from toolindex._meta import CHANGED_AT, EMBEDDED, GENERATION, get_meta, get_number, is_complete
from toolindex._rows import ENTRY_COLUMNS, UnreadableRowError, to_entry
from toolindex._usage import ToolOutcomes, usage_generation
from toolindex._vectors import (
    durable_dimensions,
    durable_id,
    durable_vectors,
    model_of,
    vector_table,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import apsw

    from toolindex._filters import ToolFilter
    from toolindex._rows import ToolEntry
    from toolindex._vectors import VectorTable

_COUNTS = 16
"""The maximum number of cached counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How many tools there are, and how many can be found by a model's vectors.

    Attributes:
        tools: How many tools there are.
        vectors: How many of them have a searchable vector of the model.
        dimensions: The length of its vectors; 0 before the first.
    """

    tools: int
    vectors: int
    dimensions: int


class IndexReader:
    """Reads one state of the index; valid within the block that provides it.

    `StoreReader` documents the methods that are not documented here.

    Attributes:
        CONTENT_TABLE: The table of tools.
        FTS_TABLE: The full-text table.
        FTS_COLUMNS: Its columns, in the order of the table and of a ranker's weights.
        connection: For a ranker's retrievers.
        counts: Cached counts, by the index's state and the statement.
    """

    CONTENT_TABLE: ClassVar[str] = "entries"
    FTS_TABLE: ClassVar[str] = "entries_fts"
    FTS_COLUMNS: ClassVar[tuple[str, ...]] = (
        *("name_words", "description", "parameter_words", "category_words", "tag_words"),
        *("segments", "alias_words"),
    )

    def __init__(
        self, connection: apsw.Connection, counts: dict[tuple[object, ...], int] | None = None
    ) -> None:
        self.connection = connection
        self.counts: dict[tuple[object, ...], int] = {} if counts is None else counts
        # Cached, because a search asks for them many times.
        self._numbers: dict[str, int] = {}
        self._tables: dict[tuple[str, int | None], VectorTable | None] = {}
        self._coverages: dict[tuple[str, int | None], Coverage] = {}

    def entries(self, ids: Sequence[str]) -> dict[str, ToolEntry]:
        # As one JSON value, which allows any number of ids, and strings that are not valid Unicode.
        sql = f"SELECT {ENTRY_COLUMNS} FROM entries WHERE id IN (SELECT value FROM json_each(?))"  # noqa: S608
        rows = self.connection.execute(sql, (json.dumps(list(ids)),))
        return {row[0]: to_entry(row) for row in rows}

    def rowids(self, where: ToolFilter) -> tuple[str, tuple[str | int | float, ...]] | None:
        """Return a SELECT of a filter's rowids with its values, or None for all."""
        return rowids(where)

    def ids(self, where: ToolFilter) -> tuple[str, ...]:
        selection = self.rowids(where)
        allowed, values = (
            (f"WHERE rowid IN ({selection[0]})", selection[1]) if selection else ("", ())
        )
        rows = self.connection.execute(f"SELECT id FROM entries {allowed} ORDER BY id", values)  # noqa: S608
        return tuple(str(id_) for (id_,) in rows)

    def changed_at(self) -> float | None:
        with suppress(TypeError, ValueError):
            return float(get_meta(self.connection, CHANGED_AT) or "")
        # No tool has changed since an earlier version wrote the index.
        return self.connection.execute("SELECT max(indexed_at) FROM entries").get  # type: ignore[no-any-return]

    def outcomes(self) -> dict[str, ToolOutcomes]:
        rows = self.connection.execute(
            "SELECT tool_id, sum(success), sum(1 - success), "
            "count(latency_ms) FILTER (WHERE success), avg(latency_ms) FILTER (WHERE success) "
            "FROM outcomes GROUP BY tool_id"
        )
        return {id_: ToolOutcomes(*counts) for id_, *counts in rows}

    def categories(self, where: ToolFilter) -> dict[tuple[str, str], int]:
        selection = self.rowids(where)
        # The plus makes SQLite use the covering index by group: going by rowid would read each row.
        allowed, values = (
            (f"WHERE +rowid IN ({selection[0]})", selection[1]) if selection else ("", ())
        )
        rows = self.connection.execute(
            f"SELECT source, category, count(*) FROM entries {allowed} "  # noqa: S608
            "GROUP BY source, category ORDER BY source, category",
            values,
        )
        counts = {(source, category): count for source, category, count in rows}
        if not all(isinstance(it, str) for group in counts for it in group):
            raise UnreadableRowError("category")
        return counts

    def coverage(self, model_id: str, *, dimensions: int | None = None) -> Coverage:
        key = model_id, dimensions
        if key not in self._coverages:
            self._coverages[key] = self._covered(model_id, dimensions)
        return self._coverages[key]

    def _covered(self, model_id: str, dimensions: int | None) -> Coverage:
        tools = self._count("SELECT count(*) FROM entries")
        if (table := self.vector_table(model_id, dimensions=dimensions)) is not None:
            sql = "SELECT count(*) FROM vector_rows WHERE vec_table = ?"
            vectors = self._count(sql, (table.name,), model_id=model_id)
            return Coverage(tools=tools, vectors=vectors, dimensions=table.dimensions)
        selection, values = self.durable_vectors(model_id, dimensions=dimensions)
        length = values[1] // 4
        sql = f"SELECT count(*) FROM ({selection})"  # noqa: S608
        vectors = self._count(sql, values, model_id=model_id) if length else 0
        return Coverage(tools=tools, vectors=vectors, dimensions=length)

    def with_vectors(
        self, ids: Collection[str], *, model_id: str, dimensions: int | None = None
    ) -> set[str]:
        _, values = self.durable_vectors(model_id, dimensions=dimensions)
        rows = self.connection.execute(
            "SELECT e.id FROM json_each(?) AS asked CROSS JOIN entries AS e ON e.id = asked.value "
            "JOIN embeddings AS v ON v.model_id = ? AND v.text_hash = e.text_hash "
            "AND length(v.vector) = ?",
            (json.dumps(list(ids)), *values),
        )
        return {str(id_) for (id_,) in rows}

    def vector_table(self, model_id: str, *, dimensions: int | None = None) -> VectorTable | None:
        """Return the table in which a model's vectors are searched, or None if there is none.

        There is none if sqlite-vec cannot be loaded, nor, for a while, after a process without it
        has written; `durable_vectors` has the same vectors.
        """
        key = model_id, dimensions
        if key not in self._tables:
            durable = durable_id(self.connection, model_id, dimensions)
            self._tables[key] = vector_table(self.connection, durable)
        return self._tables[key]

    def durable_vectors(
        self, model_id: str, *, dimensions: int | None = None
    ) -> tuple[str, tuple[str, int]]:
        """Return a SELECT of the rowid and the vector of each entry, with its parameters.

        The vectors are a model's unit vectors, as little-endian float32.
        """
        durable = durable_id(self.connection, model_id, dimensions)
        return durable_vectors(durable, durable_dimensions(self.connection, durable) or 0)

    def vectors(self, model_id: str, *, dimensions: int | None = None) -> dict[str, bytes]:
        """Return the stored vector of each entry that has one, by id, as in `durable_vectors`."""
        sql, parameters = self.durable_vectors(model_id, dimensions=dimensions)
        rows = self.connection.execute(
            f"WITH durable (number, vector) AS ({sql}) "  # noqa: S608 - from here
            "SELECT id, vector FROM durable JOIN entries ON entries.rowid = number ORDER BY id",
            parameters,
        )
        return {str(id_): bytes(vector) for id_, vector in rows}

    def models(self) -> tuple[str, ...]:
        rows = self.connection.execute("SELECT model_id FROM models")
        return tuple(sorted({model_of(durable) for (durable,) in rows}))

    def generation(self) -> int:
        return self._number(GENERATION)

    def state_of(self, model_id: str | None = None) -> tuple[int, int]:
        vectors = self._number(f"{EMBEDDED}:{model_id}") if model_id else 0
        return self.generation() - self._number(EMBEDDED), vectors

    def usage_generation(self) -> int:
        return usage_generation(self.connection)

    def is_complete(self) -> bool:
        return is_complete(self.connection)

    def _number(self, key: str) -> int:
        if key not in self._numbers:
            self._numbers[key] = get_number(self.connection, key)
        return self._numbers[key]

    def _count(
        self, sql: str, values: tuple[str | int, ...] = (), *, model_id: str | None = None
    ) -> int:
        # Counting reads a whole index, and every search needs it.
        key = self.state_of(model_id), sql, *values
        if (count := self.counts.get(key)) is None:
            count = int(self.connection.execute(sql, values).get)
            # Other readers share the cache, and may clear it at any moment.
            if len(self.counts) > _COUNTS:
                self.counts.clear()
            self.counts[key] = count
        return count
