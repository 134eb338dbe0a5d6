"""One tree on the server, inside a transaction: reading it, and changing it.

Each change makes a new state, by which hosts notice it. A change requires the tree's lock, so its
states are committed in order. Rows that cannot be read are left out.
"""

from __future__ import annotations

import json
import secrets
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from toolindex import NewerSchemaError

from toolindex_postgres._errors import SchemaError, UnreadableRowError
from toolindex_postgres._rows import (
    aliases_of,
    as_bytes,
    decoded,
    encoded,
    model_of,
    record_of,
    record_texts,
    shown,
    vector_of,
)

if TYPE_CHECKING:
    from array import array
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from psycopg import Cursor
    from toolscan import ToolRecord

    from toolindex_postgres._connections import Connection, Connections

_T = TypeVar("_T")

SUPPORTED = 2
"""The version of the schema that this package makes."""
# Version 2 only drops what is no longer used, so no host has to wait for it.
_OLDEST = 1
_BATCH = 1_000
# As much as a slow line carries in the time of one statement.
_MOST_CHANGES = 1_000
# With this step, a bigint still has room for far more than ten billion states.
_LARGEST_STEP = 1 << 19
# A larger number is not one of ours.
_LARGEST_STATE = 1 << 62
_STEPS = 1_000
# How many vectors that no tool needs are kept for each model; at least twice the number of tools.
_SPARES = 5_000
_CURSORS = count(1)
_ROW = "id, path, file_hash, text_hash, record"
_LOCK = "SELECT name FROM toolindex.tree WHERE name = %s FOR NO KEY UPDATE"
_STATE = "SELECT * FROM toolindex.look(%s)"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A state of a tree.

    Attributes:
        database: The id of the database, which changes if it is created again.
        tree: The tree's number; 0 if there is no such tree yet.
        generation: A number that changes with every change.
        reader_version: The version of the reader that made the records, or None before the first.
        is_complete: Whether a whole tree has been synced.
        outcome: The number of the last outcome in the record of all hosts.
    """

    database: str
    tree: int = 0
    generation: int = 0
    reader_version: str | None = None
    is_complete: bool = False
    outcome: int = 0


class Delta(NamedTuple):
    """The tools of changed files; removed tools with their file's hash; changed aliases."""

    changed: Sequence[ToolRecord]
    removed: Mapping[str, str]
    aliases: Mapping[str, Sequence[str]]


class Unreadable(NamedTuple):
    """A row that cannot be read: its table, its key besides the tree, its name, and the reason."""

    table: str
    key: Mapping[str, str | int]
    name: str
    reason: str


def poll(connections: Connections, name: str, *, patient: bool = False) -> State:
    """Fetch the state of a tree, in one round trip and within two seconds.

    Raises:
        UnreachableStoreError: There is no answer.
        SchemaError: There is no schema, or an older one.
        NewerSchemaError: A later version made it.
    """
    row = connections.ask(_STATE, encoded(name), patient=patient)
    return _state_of(row, connections.where)


def check_version(where: str, found: int | None) -> None:
    """Reject a version of the schema that this package does not know.

    Raises:
        SchemaError: There is none, or it is too old.
        NewerSchemaError: A later version made it.
    """
    if found is None or found < _OLDEST:
        raise SchemaError(where, found=found, supported=SUPPORTED)
    if found > SUPPORTED:
        raise NewerSchemaError(where, found=found, supported=SUPPORTED)


def _state_of(row: Sequence[str | None] | None, where: str) -> State:
    version, database, tree, generation, reader, is_complete, outcome = row or [None] * 7
    check_version(where, None if version is None else int(version))
    if tree is None:
        return State(database=database or "")
    return State(
        database=database or "",
        tree=int(tree),
        generation=int(generation or 0),
        # With a version that cannot be decoded, every host reads its files again.
        reader_version=None if reader is None else shown(reader),
        is_complete=is_complete == "true",
        outcome=int(outcome or 0),
    )


class Tree:
    """A tree inside a transaction, with the methods that read it and those that change it.

    Args:
        connection: A connection inside a transaction.
        name: The tree's name.
        where: Where it is, for messages.
        locks: Whether to lock the tree until the end of the transaction, for which a role needs the
            right to write it. It is created if there is none.

    Attributes:
        state: Its state, which each change replaces.
        left_out: The reasons why rows cannot be read, by display name. Methods that read rows add
            to it, and remove those that can be read.

    Raises:
        SchemaError: There is no schema, or an older one.
        NewerSchemaError: A later version made it.
    """

    def __init__(
        self, connection: Connection, name: str, where: str, *, locks: bool = False
    ) -> None:
        self._connection = connection
        self._where = where
        self.left_out: dict[str, str] = {}
        key = (encoded(name),)
        if locks and not connection.execute(_LOCK, key).rowcount:
            # An unknown version of the schema is rejected.
            _state_of(connection.execute(_STATE, key).fetchone(), where)
            connection.execute(
                "INSERT INTO toolindex.tree (name) VALUES (%s) ON CONFLICT DO NOTHING", key
            )
            connection.execute(_LOCK, key)
        self.state: State = _state_of(connection.execute(_STATE, key).fetchone(), where)

    def knows(self, generation: int) -> bool:
        """Return whether a state is among the last states of the tree."""
        found = self._run(
            "SELECT FROM toolindex.step WHERE tree_id = %(tree)s AND generation = %(generation)s",
            generation=generation,
        )
        return bool(found.rowcount)

    def delta(self, since: int) -> Delta | None:
        """Return what has changed since a state; None if it is too much for one statement."""
        rows = self._run(
            f"SELECT {_ROW} FROM toolindex.entry WHERE tree_id = %(tree)s AND "  # noqa: S608
            # The other tools of a changed file are included, so that files are always complete.
            "(generation > %(since)s OR record IS NOT NULL AND path IN (SELECT path "
            "FROM toolindex.entry WHERE tree_id = %(tree)s AND generation > %(since)s)) "
            "ORDER BY id LIMIT %(most)s",
            since=since,
            most=_MOST_CHANGES + 1,
        ).fetchall()
        aliased = self._run(
            "SELECT id, aliases FROM toolindex.entry WHERE tree_id = %(tree)s "
            "AND aliased > %(since)s AND aliased > 0 AND record IS NOT NULL LIMIT %(most)s",
            since=since,
            most=_MOST_CHANGES + 1,
        ).fetchall()
        if max(len(rows), len(aliased)) > _MOST_CHANGES:
            return None
        changed = list(self._readable(rows))
        here = {encoded(str(record.id)) for record in changed}
        return Delta(
            changed=changed,
            # A tool whose record cannot be read is removed, too.
            removed={shown(id_): file_hash for id_, _, file_hash, *_ in rows if id_ not in here},
            aliases=self._readable_aliases(aliased),
        )

    def listing(self) -> dict[str, tuple[str, str]]:
        """Return the path and the file's hash of each tool, by id."""
        listed: dict[str, tuple[str, str]] = {}
        for id_, path, file_hash in self._rows(
            "SELECT id, path, file_hash FROM toolindex.entry "
            "WHERE tree_id = %(tree)s AND record IS NOT NULL"
        ):
            name = "id"
            try:
                id_, name = decoded(id_), "path"
                listed[id_] = decoded(path), file_hash
            except ValueError:
                # No record has such a key.
                self.left_out[shown(id_)] = f"its record has a different {name}"
        return listed

    def records(self, ids: Collection[str]) -> list[ToolRecord]:
        """Return the records of some tools with their definitions.

        Raises:
            UnreadableRowError: One of them cannot be read.
        """
        found: list[ToolRecord] = []
        for *row, definitions in self._run(
            f"SELECT {_ROW}, definitions FROM toolindex.entry "  # noqa: S608
            "WHERE tree_id = %(tree)s AND id = ANY (%(ids)s) AND record IS NOT NULL ORDER BY id",
            ids=[encoded(id_) for id_ in ids],
        ):
            try:
                found.append(record_of(row, definitions))
            except ValueError as error:
                raise UnreadableRowError(self._where, shown(row[0]), str(error)) from error
        return found

    def portions(self, paths: Collection[str]) -> Iterator[list[ToolRecord]]:
        """Yield the records of some files, without definitions, about a thousand at a time.

        The records of a file are never split.
        """
        portion: list[ToolRecord] = []
        rows = self._rows(
            f"SELECT {_ROW} FROM toolindex.entry "  # noqa: S608
            "WHERE tree_id = %(tree)s AND path = ANY (%(paths)s) AND record IS NOT NULL "
            "ORDER BY path, id",
            paths=[encoded(path) for path in paths],
        )
        for record in self._readable(rows):
            if len(portion) >= _BATCH and portion[-1].path != record.path:
                yield portion
                portion = []
            portion.append(record)
        if portion:
            yield portion

    def aliases(self) -> dict[str, list[str]]:
        """Return the aliases of every tool that has any, by id."""
        rows = self._rows(
            "SELECT id, aliases FROM toolindex.entry "
            "WHERE tree_id = %(tree)s AND aliases <> '[]' AND record IS NOT NULL"
        )
        return {id_: texts for id_, texts in self._readable_aliases(rows).items() if texts}

    def vectors_since(self, since: int) -> Iterator[tuple[str, dict[str, array[float]]]]:
        """Yield the vectors that the tree's tools have received since a state, newest last.

        Each item is a model, and some of its vectors of one length, by the hash of their text.
        """
        kind, alike = ("", 0), dict[str, "array[float]"]()
        for model, length, text_hash, v, _ in self._rows(
            "SELECT model, dimensions, text_hash, v, generation FROM toolindex.tree_vector AS v "
            "WHERE tree_id = %(tree)s AND generation > %(since)s AND EXISTS (SELECT "
            "FROM toolindex.entry AS e WHERE e.tree_id = v.tree_id AND e.text_hash = v.text_hash "
            "AND e.record IS NOT NULL) "
            # The text of a tool may have been changed back to one whose vector is older.
            "UNION ALL SELECT model, dimensions, text_hash, v, generation "
            "FROM toolindex.tree_vector WHERE tree_id = %(tree)s AND generation <= %(since)s "
            "AND text_hash IN (SELECT text_hash FROM toolindex.entry WHERE tree_id = %(tree)s "
            "AND generation > %(since)s AND record IS NOT NULL) ORDER BY 5, 1, 2, 3",
            is_binary=True,
            since=since,
        ):
            name = name_of_vector(shown(model), text_hash)
            self.left_out.pop(name, None)
            try:
                model_of(model)
                vector = vector_of(v, length)
            except ValueError as error:
                self.left_out[name] = str(error)
                continue
            if alike and ((model, length) != kind or len(alike) == _BATCH):
                yield decoded(kind[0]), alike
                alike = {}
            kind = model, length
            alike[text_hash] = vector
        if alike:
            yield decoded(kind[0]), alike

    def reusable_vectors(
        self, model: str, hashes: Collection[str], dimensions: int
    ) -> dict[str, array[float]]:
        """Return a model's vectors of texts, from any tree that this role may write.

        Their length is `dimensions`, or that in the newest tree if it is 0.
        """
        found: dict[int, dict[str, array[float]]] = {}
        for batch in _batches(hashes):
            for length, text_hash, v in self._run(
                "SELECT dimensions, text_hash, v FROM toolindex.tree_vector "
                "WHERE model = %(model)s AND text_hash = ANY (%(hashes)s) "
                # Vectors stored by roles that may not write here are not trusted.
                "AND (NOT row_security_active('toolindex.tree_vector') OR tree_id = ANY "
                "((SELECT toolindex.trees(current_user, true))::int[])) ORDER BY tree_id",
                is_binary=True,
                model=encoded(model),
                hashes=batch,
            ):
                with suppress(ValueError):
                    vector = vector_of(v, length)
                    found.setdefault(length, {})[text_hash] = vector
        return found.get(dimensions or next(reversed(found), 0), {})

    def without_vectors(
        self, model: str, dimensions: int, among: Collection[str]
    ) -> dict[str, str]:
        """Return the text's hash, if it is among some, by id of each tool without a vector."""
        rows = self._rows(
            "SELECT id, text_hash FROM toolindex.entry AS e WHERE tree_id = %(tree)s "
            "AND text_hash = ANY (%(among)s) AND record IS NOT NULL AND NOT EXISTS (SELECT "
            "FROM toolindex.tree_vector AS v WHERE (v.tree_id, v.model, v.dimensions, v.text_hash) "
            "= (e.tree_id, %(model)s, %(dimensions)s, e.text_hash))",
            among=list(among),
            model=encoded(model),
            dimensions=dimensions,
        )
        return {shown(id_): text_hash for id_, text_hash in rows}

    def unreadable(self) -> Iterator[Unreadable]:
        for *row, definitions, aliases in self._rows(
            f"SELECT {_ROW}, definitions, aliases FROM toolindex.entry "  # noqa: S608
            "WHERE tree_id = %(tree)s AND record IS NOT NULL"
        ):
            try:
                record_of(row, definitions)
                aliases_of(aliases)
            except ValueError as error:
                yield Unreadable("entry", {"id": row[0]}, shown(row[0]), str(error))
        for table, columns in (
            ("tree_vector", ("model", "dimensions", "text_hash")),
            ("query_vector", ("model", "query_hash")),
        ):
            for *values, v in self._rows(
                f"SELECT {', '.join(columns)}, v FROM toolindex.{table} WHERE tree_id = %(tree)s",  # noqa: S608
                is_binary=True,
            ):
                key = dict(zip(columns, values, strict=True))
                try:
                    model_of(key["model"])
                    vector_of(v, key.get("dimensions"))
                except ValueError as error:
                    name = name_of_vector(
                        shown(key["model"]), values[-1], "query" if "query_hash" in key else "text"
                    )
                    yield Unreadable(table, key, name, str(error))

    def has_right_counters(self) -> bool:
        """Return whether the record's counters are not below the numbers of its events."""
        wrong = self._run(
            "SELECT FROM toolindex.usage AS u WHERE tree_id = %(tree)s AND EXISTS (SELECT "
            "FROM toolindex.event AS e WHERE e.tree_id = u.tree_id AND (e.no > u.last "
            "OR e.no > u.outcome AND e.search IS NULL))"
        )
        return not wrong.rowcount

    def push(
        self,
        changed: Iterable[ToolRecord],
        removed: Iterable[str],
        moved: Collection[tuple[str, str]],
    ) -> None:
        """Apply the plan of a sync: `changed`, `removed` and `moved` of `StoredFiles.plan`."""
        generation = self._next()
        for batch in _batches(sorted(changed, key=lambda record: str(record.id))):
            rows = [
                (encoded(str(it.id)), encoded(it.path), it.file_hash, it.text_hash, *texts)
                for it, texts in ((it, record_texts(it)) for it in batch)
            ]
            self._connection.execute(
                "INSERT INTO toolindex.entry "
                "(tree_id, id, path, file_hash, text_hash, record, definitions, generation) "
                "SELECT %s, given.*, %s FROM unnest"
                "(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[]) AS given "
                "ON CONFLICT (tree_id, id) DO UPDATE SET path = excluded.path, "
                "file_hash = excluded.file_hash, text_hash = excluded.text_hash, "
                "record = excluded.record, definitions = excluded.definitions, "
                "generation = excluded.generation",
                (self.state.tree, generation, *map(list, zip(*rows, strict=True))),
            )
        if moved:
            # The tools of a renamed file keep their vectors, as in the copies.
            ids, hashes = zip(*moved, strict=True)
            self._run(
                "INSERT INTO toolindex.tree_vector "
                "(tree_id, model, dimensions, text_hash, generation, v) "
                "SELECT DISTINCT ON (v.model, v.dimensions, given.new) "
                "v.tree_id, v.model, v.dimensions, given.new, %(new)s, v.v "
                "FROM unnest(%(ids)s::text[], %(hashes)s::text[]) AS given (id, new) "
                "JOIN toolindex.entry AS e ON e.tree_id = %(tree)s AND e.id = given.id "
                "JOIN toolindex.tree_vector AS v "
                "ON v.tree_id = e.tree_id AND v.text_hash = e.text_hash "
                "ON CONFLICT DO NOTHING",
                new=generation,
                ids=[encoded(id_) for id_ in ids],
                hashes=list(hashes),
            )
        self._run(
            # If the tool is restored, it has no aliases, even in a copy that never saw it removed.
            "UPDATE toolindex.entry SET record = NULL, definitions = '\"\"', generation = %(new)s, "
            "aliased = CASE aliases WHEN '[]' THEN aliased ELSE %(new)s END, aliases = '[]' "
            "WHERE tree_id = %(tree)s AND id = ANY (%(gone)s)",
            new=generation,
            gone=[encoded(id_) for id_ in removed],
        )
        self._move_to(generation)

    def set_reader(self, reader_version: str, *, is_complete: bool) -> None:
        self._run(
            "UPDATE toolindex.tree SET reader_version = %(version)s, is_complete = %(complete)s "
            "WHERE tree_id = %(tree)s",
            version=encoded(reader_version),
            complete=is_complete,
        )

    def push_aliases(self, aliases: Mapping[str, Sequence[str]], keep: Collection[str]) -> None:
        """Set the aliases of all tools except those in `keep`."""
        kept = frozenset(keep)
        held = {id_: it for id_, it in self.aliases().items() if id_ not in kept}
        wanted = {id_: list(texts) for id_, texts in aliases.items() if id_ not in kept}
        changed = {id_: texts for id_, texts in wanted.items() if held.get(id_, []) != texts}
        changed |= {id_: [] for id_ in held if id_ not in wanted}
        generation = self._next()
        done = self._run(
            "UPDATE toolindex.entry AS e SET aliases = given.aliases, aliased = %(new)s "
            "FROM unnest(%(ids)s::text[], %(texts)s::text[]) AS given (id, aliases) "
            "WHERE e.tree_id = %(tree)s AND e.id = given.id AND e.record IS NOT NULL",
            new=generation,
            ids=[encoded(id_) for id_ in changed],
            texts=[json.dumps(texts) for texts in changed.values()],
        )
        if done.rowcount:
            self._move_to(generation)

    def push_vectors(self, model: str, vectors: Mapping[str, array[float]]) -> None:
        generation = self._next()
        for batch in _batches(sorted(vectors)):
            self._run(
                "INSERT INTO toolindex.tree_vector "
                "(tree_id, model, dimensions, text_hash, generation, v) "
                "SELECT %(tree)s, %(model)s, %(dimensions)s, given.hash, %(new)s, given.v "
                "FROM unnest(%(hashes)s::text[], %(vectors)b::bytea[]) AS given (hash, v) "
                "ON CONFLICT (tree_id, model, dimensions, text_hash) "
                "DO UPDATE SET generation = excluded.generation, v = excluded.v",
                model=encoded(model),
                dimensions=len(vectors[batch[0]]),
                new=generation,
                hashes=batch,
                vectors=[as_bytes(vectors[it]) for it in batch],
            )
        self._move_to(generation)

    def forget_vectors(self, model: str) -> None:
        """Delete a model's vectors of the tree's texts.

        They are deleted in all trees that this role may write; otherwise they would be reused from
        there.
        """
        self._run(
            "DELETE FROM toolindex.tree_vector WHERE model = %(model)s AND text_hash IN "
            "(SELECT text_hash FROM toolindex.entry WHERE tree_id = %(tree)s)",
            model=encoded(model),
        )
        self._move_to(self._next())

    def discard(self, rows: Iterable[Unreadable]) -> None:
        """Delete rows that cannot be read, and correct the counters of the record.

        All hosts then compare their copies with the whole tree, in the transaction's new state.
        """
        self._run("DELETE FROM toolindex.step WHERE tree_id = %(tree)s")
        for it in rows:
            condition = " AND ".join(f"{column} = %({column})s" for column in it.key)
            self._run(
                f"DELETE FROM toolindex.{it.table} WHERE tree_id = %(tree)s AND {condition}",  # noqa: S608
                **dict[str, Any](it.key),
            )
        self._run(
            "UPDATE toolindex.usage AS u SET last = greatest(u.last, e.last), "
            "outcome = greatest(u.outcome, e.outcome) FROM (SELECT max(no) AS last, "
            "max(no) FILTER (WHERE search IS NULL) AS outcome FROM toolindex.event "
            "WHERE tree_id = %(tree)s) AS e WHERE u.tree_id = %(tree)s AND e.last IS NOT NULL"
        )

    def prune(self) -> None:
        """Delete data that no host of the tree needs any more.

        These are: vectors of texts that no tool has, except the newest, because a text may come
        back; vectors of queries that have not been used for three months; and removed tools, once
        their removal is so old that a host that still has them compares its whole copy.
        """
        self._run(
            "DELETE FROM toolindex.tree_vector AS v USING (SELECT s.model, s.dimensions, "
            "s.text_hash, row_number() OVER (PARTITION BY s.model, s.dimensions "
            "ORDER BY s.generation DESC) AS age FROM toolindex.tree_vector AS s "
            "WHERE s.tree_id = %(tree)s AND NOT EXISTS (SELECT FROM toolindex.entry AS e "
            "WHERE e.tree_id = s.tree_id AND e.text_hash = s.text_hash AND e.record IS NOT NULL)) "
            "AS spare WHERE v.tree_id = %(tree)s AND (v.model, v.dimensions, v.text_hash) "
            "= (spare.model, spare.dimensions, spare.text_hash) "
            "AND spare.age > greatest(%(spares)s, 2 * (SELECT count(*) FROM toolindex.entry "
            "WHERE tree_id = %(tree)s AND record IS NOT NULL))",
            spares=_SPARES,
        )
        self._run(
            "DELETE FROM toolindex.query_vector "
            "WHERE tree_id = %(tree)s AND used_at < now() - interval '90 days'"
        )
        self._run(
            "DELETE FROM toolindex.entry WHERE tree_id = %(tree)s AND record IS NULL AND generation"
            " < (SELECT min(generation) FROM toolindex.step WHERE tree_id = %(tree)s)"
        )

    def _next(self) -> int:
        # The step is random. Otherwise, a server that has lost its last changes and then continued
        # could be in a state that a copy mistakes for its own.
        now = self.state.generation
        return (now if 0 <= now < _LARGEST_STATE else 0) + 1 + secrets.randbelow(_LARGEST_STEP)

    def _move_to(self, generation: int) -> None:
        self.state = replace(self.state, generation=generation)
        self._run(
            "UPDATE toolindex.tree SET generation = %(new)s WHERE tree_id = %(tree)s",
            new=generation,
        )
        self._run("INSERT INTO toolindex.step VALUES (%(tree)s, %(new)s)", new=generation)
        if not secrets.randbelow(_STEPS):
            self._run(
                "DELETE FROM toolindex.step WHERE tree_id = %(tree)s AND generation < "
                "(SELECT min(generation) FROM (SELECT generation FROM toolindex.step "
                "WHERE tree_id = %(tree)s ORDER BY generation DESC LIMIT %(steps)s) AS last)",
                steps=_STEPS,
            )

    def _run(
        self,
        statement: str,
        *,
        is_binary: bool = False,
        **values: Any,  # noqa: ANN401 - of columns
    ) -> Cursor[tuple[Any, ...]]:
        """Run a statement with named parameters; `tree` is the tree's number."""
        parameters = {"tree": self.state.tree, **values}
        return self._connection.execute(statement.encode(), parameters, binary=is_binary)

    def _rows(
        self,
        statement: str,
        *,
        is_binary: bool = False,
        **values: Any,  # noqa: ANN401 - of columns
    ) -> Iterator[tuple[Any, ...]]:
        """Yield rows, fetched in batches, so that no statement takes long or needs much memory."""
        # psycopg's server-side cursor would close itself later, when the connection is used
        # elsewhere.
        name = f"portions_{next(_CURSORS)}"
        self._run(f"DECLARE {name} CURSOR FOR {statement}", **values)
        while rows := self._run(f"FETCH {_BATCH} FROM {name}", is_binary=is_binary).fetchall():
            yield from rows
        self._run(f"CLOSE {name}")

    def _readable(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[ToolRecord]:
        for row in rows:
            self.left_out.pop(shown(row[0]), None)
            if row[-1] is None:
                continue
            try:
                yield record_of(row)
            except ValueError as error:
                self.left_out[shown(row[0])] = str(error)

    def _readable_aliases(self, rows: Iterable[tuple[Any, ...]]) -> dict[str, list[str]]:
        aliases: dict[str, list[str]] = {}
        for key, text in rows:
            id_, name = shown(key), f"aliases of {shown(key)}"
            self.left_out.pop(name, None)
            aliases[id_] = []
            try:
                aliases[id_] = aliases_of(text)
            except ValueError as error:
                self.left_out[name] = str(error)
        return aliases


def name_of_vector(model: str, text_hash: str, kind: str = "text") -> str:
    return f"vector of {model} for {kind} {text_hash:.12}"


def _batches(items: Iterable[_T]) -> list[list[_T]]:
    every = list(items)
    return [every[start : start + _BATCH] for start in range(0, len(every), _BATCH)]
