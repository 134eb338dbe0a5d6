"""Search a large tree's vectors with pgvector, so that hosts do not have to fetch them all.

For each model, a writer makes a table with an HNSW index (Malkov & Yashunin 2018), and keeps it
equal to the vectors of the tree. It holds unit vectors in half precision, which changes cosines by
about 1e-4.
"""

from __future__ import annotations

import math
import struct
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from toolindex_postgres._texts import decoded, encoded
from toolindex_postgres._tree import as_floats

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from toolindex import Candidate, StoreReader, ToolFilter

    from toolindex_postgres._connection import Connection
    from toolindex_postgres._page_view import PageView

LARGE = 50_000
"""Searches are approximate if more vectors than this exist, and more tools pass the filter."""
# Look at more candidates than requested, because some texts no longer belong to a tool.
_SPARE = 1.5
_MOST = 4_000
_GROWTH = 4
# How many candidates HNSW keeps while it searches (`ef_search`, at most 1,000), and how many it
# must find, for a recall of .99 of the ten nearest; measured with 100,000 and 1,000,000 tools.
_EFFORT, _LARGE_EFFORT = (400, 600), (1_000, 1_500)
_SCANNED = 100_000
_BATCH = 1_000
_KNOWN = 16
_WILDCARDS = frozenset("*?")
_CONDITION = "e.tree_id = %(tree)s AND e.record IS NOT NULL"


class NearTable(NamedTuple):
    """A table of a model's vectors.

    Attributes:
        name: Its name, in the schema.
        pgvector: The schema of the extension, quoted.
        upto: The state of the tree up to which it has all vectors.
        rows: About how many rows it has.
    """

    name: str
    pgvector: str
    upto: int
    rows: int


class Neighbour(NamedTuple):
    """A tool, and the cosine of its vector with the query's."""

    id: str
    score: float


Tables = dict[tuple[str, int], NearTable]
"""The tables of a tree by model and length."""


def tables_of(connection: Connection, tree: int) -> Tables:
    """Return the tables of a tree."""
    rows = connection.execute(
        "SELECT n.model, n.dimensions, n.name, n.pgvector, n.upto, c.reltuples::int8 "
        "FROM toolindex.near AS n JOIN pg_class AS c "
        "ON c.relname = n.name AND c.relnamespace = 'toolindex'::regnamespace "
        "WHERE n.tree_id = %s",
        (tree,),
    )
    return {(decoded(model), length): NearTable(*rest) for model, length, *rest in rows}


def add(connection: Connection, tree: int, state: int) -> None:
    """Add a tree's new vectors to its tables, in the transaction that has stored them.

    Args:
        connection: A connection inside that transaction, which holds the tree's lock.
        tree: The number of the tree.
        state: The new state of the tree.
    """
    tables = tables_of(connection, tree)
    for (model, length), table in tables.items():
        put(connection, table, new_vectors(connection, table, tree, model, length))
    if tables:
        connection.execute("SELECT toolindex.keep_near(%s, %s)", (tree, state))


def new_vectors(
    connection: Connection, table: NearTable, tree: int, model: str, length: int
) -> list[tuple[str, bytes]]:
    """Return the vectors that a tree's tools have and a table lacks, by text hash."""
    return connection.execute(
        "SELECT text_hash, v FROM toolindex.tree_vector WHERE tree_id = %(tree)s "  # noqa: S608 - see put
        "AND model = %(model)s AND dimensions = %(length)s AND generation > %(since)s "
        # The text of a tool may have been changed back to one whose vector is older. Vectors that
        # are indexed already are left out, because indexing them again would take minutes if all
        # files are read again.
        "UNION SELECT text_hash, v FROM toolindex.tree_vector AS v WHERE tree_id = %(tree)s "
        "AND model = %(model)s AND dimensions = %(length)s AND text_hash IN (SELECT text_hash "
        "FROM toolindex.entry WHERE tree_id = %(tree)s AND generation > %(since)s "
        f"AND record IS NOT NULL) AND NOT EXISTS (SELECT FROM toolindex.{table.name} AS n "
        "WHERE n.text_hash = v.text_hash)".encode(),
        {"tree": tree, "model": encoded(model), "length": length, "since": table.upto},
        binary=True,
    ).fetchall()


def prune(connection: Connection, tree: int) -> None:
    """Delete vectors of texts that no tool has any more, which would displace others in results."""
    for table in tables_of(connection, tree).values():
        connection.execute(
            f"DELETE FROM toolindex.{table.name} AS n WHERE NOT EXISTS ("  # noqa: S608 - see put
            "SELECT FROM toolindex.entry AS e WHERE e.tree_id = %s "
            "AND e.text_hash = n.text_hash AND e.record IS NOT NULL)".encode(),
            (tree,),
        )


def put(connection: Connection, table: NearTable, vectors: Sequence[tuple[str, bytes]]) -> None:
    """Add vectors to a table that is indexed, or replace them."""
    for start in range(0, len(vectors), _BATCH):
        part = vectors[start : start + _BATCH]
        connection.execute(
            f"INSERT INTO toolindex.{table.name} "  # noqa: S608 - the name comes from make_near
            f"SELECT given.hash, given.v::{table.pgvector}.halfvec "
            "FROM unnest(%s::text[], %s::text[]) AS given (hash, v) "
            "ON CONFLICT (text_hash) DO UPDATE SET v = excluded.v".encode(),
            ([it for it, _ in part], [_text(as_floats(v)) for _, v in part]),
        )


def copy(connection: Connection, table: NearTable, vectors: Iterable[tuple[str, bytes]]) -> None:
    """Fill a table that is not indexed yet."""
    into = f"COPY toolindex.{table.name} FROM STDIN (FORMAT BINARY)".encode()
    with connection.cursor() as cursor, cursor.copy(into) as rows:
        rows.write(struct.pack(">11sII", b"PGCOPY\n\xff\r\n\0", 0, 0))
        for text_hash, v in vectors:
            key, floats = text_hash.encode(), _unit(as_floats(v))
            # This is the format that halfvec_recv() reads.
            value = struct.pack(f">HH{len(floats)}e", len(floats), 0, *floats)
            rows.write(
                struct.pack(">HI", 2, len(key)) + key + struct.pack(">I", len(value)) + value
            )
        rows.write(struct.pack(">h", -1))


class Near:
    """Finds the nearest tools on the server; shared by all reads of a store."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._tables: OrderedDict[tuple[int, int], Tables] = OrderedDict()
        self._counts: OrderedDict[tuple[object, ...], int] = OrderedDict()

    @property
    def is_used(self) -> bool:
        """Whether the newest known state of the tree has such a table."""
        with self._lock:
            return bool(self._tables and next(reversed(self._tables.values())))

    def tables(self, view: PageView) -> Tables:
        """Return the tables in the state that a read sees; they only change with the state."""
        key = view.tree.tree, view.tree.generation
        with self._lock:
            known = self._tables.get(key)
        if known is None:
            known = tables_of(view.connection, view.tree.tree)
            with self._lock:
                _remember(self._tables, key, known)
        return known

    def nearest(
        self,
        view: PageView,
        table: NearTable,
        vector: Sequence[float],
        where: ToolFilter,
        depth: int,
    ) -> list[Neighbour] | None:
        """Return the nearest tools, best first.

        Results are exact if a filter leaves few tools, and approximate otherwise.

        Returns:
            None if the server cannot apply this filter, or hardly any tools pass it.
        """
        if where.tags or where.path_prefix is not None or where.uses_outcomes:
            return None
        condition, values = _condition(where)
        values["tree"] = view.tree.tree
        is_small = condition and self._count(view, condition, values) <= LARGE
        values["q"] = _text(vector)
        if is_small:
            return _exact(view.connection, table, condition, values, where, depth)
        looked = math.ceil(_SPARE * depth)
        while looked < _GROWTH * _MOST:
            found = _approximate(view.connection, table, condition, values, min(looked, _MOST))
            passing = [it for it in found if where.passes_id(it.id)][:depth]
            if len(passing) == depth:
                return passing
            looked *= _GROWTH
        return None

    def _count(self, view: PageView, condition: str, values: Mapping[str, Any]) -> int:
        key = (view.tree.generation, condition, *map(str, values.values()))
        with self._lock:
            known = self._counts.get(key)
        if known is None:
            row = view.connection.execute(
                f"SELECT count(*) FROM (SELECT FROM toolindex.entry AS e WHERE {_CONDITION}"  # noqa: S608
                f"{condition} LIMIT {LARGE + 1}) AS counted".encode(),
                values,
            ).fetchone()
            known = row[0] if row else 0
            with self._lock:
                _remember(self._counts, key, known)
        return known


class NearReader:
    """A reader of pages that asks the server for the nearest tools of a large tree."""

    def __init__(self, reader: StoreReader, near: Near, view: PageView) -> None:
        self._reader = reader
        self._near = near
        self._view = view

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - everything else is delegated
        return getattr(self._reader, name)

    def nearest(
        self,
        vector: Sequence[float],
        *,
        model_id: str,
        where: ToolFilter,
        depth: int,
        then: Sequence[Sequence[float]] = (),
    ) -> Sequence[Candidate]:
        """Return up to `depth` tools by the cosine of their vectors of a model, in [-1, 1]."""
        table = self._near.tables(self._view).get((model_id, len(vector)))
        if table is not None and any(vector):
            found = self._near.nearest(self._view, table, vector, where, depth)
            if found is not None and self._view.is_behind:
                # The server's rows are newer than the pages, so some tools may not be in the pages.
                held = self._reader.entries([it.id for it in found])
                return [it for it in found if it.id in held]
            if found is not None:
                return found
        return self._reader.nearest(vector, model_id=model_id, where=where, depth=depth, then=then)


def _condition(where: ToolFilter) -> tuple[str, dict[str, Any]]:
    """Return the part of a filter that the server has an index for, as SQL, and its values."""
    condition, values = "", dict[str, Any]()
    if where.source is not None:
        condition += " AND split_part(e.id, ':', 1) = %(source)s"
        values["source"] = encoded(where.source)
    if where.categories:
        condition += " AND split_part(e.id, ':', 2) = ANY (%(categories)s)"
        values["categories"] = [encoded(it) for it in sorted(where.categories)]
    if where.include and all(_WILDCARDS.isdisjoint(it) for it in where.include):
        condition += " AND e.id = ANY (%(ids)s)"
        values["ids"] = [encoded(it) for it in sorted(where.include)]
    return condition, values


def _exact(
    connection: Connection,
    table: NearTable,
    condition: str,
    values: Mapping[str, Any],
    where: ToolFilter,
    depth: int,
) -> list[Neighbour]:
    # `+ 0` keeps PostgreSQL from using the HNSW index, which cannot apply the condition.
    distance = f"n.v OPERATOR({table.pgvector}.<#>) %(q)s::{table.pgvector}.halfvec"
    is_whole = not where.include and not where.exclude
    rows = connection.execute(
        f"SELECT e.id, {distance} FROM toolindex.entry AS e "  # noqa: S608 - as above
        f"JOIN toolindex.{table.name} AS n USING (text_hash) WHERE {_CONDITION}{condition} "
        f"ORDER BY ({distance}) + 0, e.id LIMIT %(depth)s".encode(),
        {**values, "depth": depth if is_whole else None},
    ).fetchall()
    found = [Neighbour(decoded(id_), -score) for id_, score in rows]
    return [it for it in found if where.passes_id(it.id)][:depth]


def _approximate(
    connection: Connection,
    table: NearTable,
    condition: str,
    values: Mapping[str, Any],
    looked: int,
) -> list[Neighbour]:
    effort, least = _EFFORT if table.rows < 4 * LARGE else _LARGE_EFFORT
    # All statements are one message. `+ 0` makes PostgreSQL sort the results of the iterative scan,
    # which it would otherwise assume to be sorted.
    cursor = psycopg.ClientCursor(connection)
    distance = f"v OPERATOR({table.pgvector}.<#>) %(q)s::{table.pgvector}.halfvec"
    cursor.execute(
        f"SET LOCAL hnsw.ef_search = {effort}; SET LOCAL hnsw.iterative_scan = relaxed_order; "  # noqa: S608 - as above
        f"SET LOCAL hnsw.max_scan_tuples = {_SCANNED}; SET LOCAL hnsw.scan_mem_multiplier = 4; "
        f"WITH found AS MATERIALIZED (SELECT text_hash, {distance} AS distance "
        f"FROM toolindex.{table.name} ORDER BY {distance} LIMIT {max(looked, least)}), "
        f"near AS (SELECT * FROM found ORDER BY distance + 0 LIMIT {looked}) "
        "SELECT e.id, near.distance FROM near JOIN toolindex.entry AS e USING (text_hash) "
        f"WHERE {_CONDITION}{condition} ORDER BY near.distance + 0, e.id".encode(),
        values,
    )
    while cursor.description is None:
        cursor.nextset()
    return [Neighbour(decoded(id_), -score) for id_, score in cursor.fetchall()]


def _remember(cache: OrderedDict[Any, Any], key: object, value: object) -> None:
    cache[key] = value
    if len(cache) > _KNOWN:
        cache.popitem(last=False)


def _unit(vector: Sequence[float]) -> list[float]:
    size = math.hypot(*vector)
    return [it / size for it in vector]


def _text(vector: Sequence[float]) -> str:
    return f"[{','.join(map(repr, _unit(vector)))}]"
