"""One tree on the server: its state, its changes since another state, and changing it.

Every function works inside the caller's transaction. Changing a tree requires its lock, so its
generations are committed in order.
"""

from __future__ import annotations

import json
import secrets
import sys
from array import array
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from toolindex_postgres._migrations import check_version
from toolindex_postgres._texts import decoded, encoded, record_of, record_texts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from toolindex import SyncPlan
    from toolscan import ToolRecord

    from toolindex_postgres._connection import Connection, Connections

Vectors = tuple[str, dict[str, "array[float]"]]
"""A model and some of its vectors, all of one length, by text hash."""

_T = TypeVar("_T")
_BATCH = 1_000
_CURSORS = count(1)
# A bigint has room for far more than ten billion states.
_LARGEST_STEP = 1 << 19
_STEPS = 1_000
# How many vectors that no tool needs are kept for each model, or twice the number of tools.
_SPARES = 5_000
_LOCK = "SELECT name FROM toolindex.tree WHERE name = %s FOR NO KEY UPDATE"
STATE = "SELECT * FROM toolindex.look(%s)"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A state of a tree.

    Attributes:
        database: The id of the database, which differs after it was created again.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """The changes of a tree.

    Attributes:
        changed: The tools of the files that changed.
        removed: Removed tools, by id, with the hash of their file.
        aliases: The aliases of tools whose aliases changed.
    """

    changed: Sequence[ToolRecord] = ()
    removed: Mapping[str, str] = field(default_factory=dict[str, str])
    aliases: Mapping[str, Sequence[str]] = field(default_factory=dict[str, "Sequence[str]"])


def state(connection: Connection, name: str, where: str) -> State:
    """Return the state of a tree.

    Raises:
        SchemaError: There is no schema, or an older one.
        NewerSchemaError: A later version made it.
    """
    return state_of(connection.execute(STATE, (encoded(name),)).fetchone(), where)


def poll(connections: Connections, name: str, *, patient: bool = False) -> State:
    """Fetch the state of a tree, in one round trip and within two seconds.

    Raises:
        UnreachableStoreError: There is no answer.
        SchemaError: There is no schema, or an older one.
        NewerSchemaError: A later version made it.
    """
    return state_of(connections.ask(STATE, encoded(name), patient=patient), connections.where)


def state_of(row: Sequence[str | None] | None, where: str) -> State:
    """Return the state of a tree, of the row that `STATE` gives.

    Raises:
        SchemaError: There is no schema, or an older one.
        NewerSchemaError: A later version made it.
    """
    version, database, tree, generation, reader, is_complete, outcome = row or [None] * 7
    check_version(where, None if version is None else int(version))
    if tree is None:
        return State(database=database or "")
    return State(
        database=database or "",
        tree=int(tree),
        generation=int(generation or 0),
        reader_version=None if reader is None else decoded(reader),
        is_complete=is_complete == "true",
        outcome=int(outcome or 0),
    )


def lock(connection: Connection, name: str, where: str) -> State:
    """Lock a tree until the end of the transaction, and return its state.

    The tree is made if there is none. Its row is locked, which only who may write it can do.
    """
    key = (encoded(name),)
    if not connection.execute(_LOCK, key).rowcount:
        state(connection, name, where)
        connection.execute(
            "INSERT INTO toolindex.tree (name) VALUES (%s) ON CONFLICT DO NOTHING", key
        )
        connection.execute(_LOCK, key)
    return state(connection, name, where)


def try_lock(connection: Connection, name: str) -> bool:
    """Take the right to change a tree if nobody has it; return whether that is so."""
    return bool(connection.execute(_LOCK + " SKIP LOCKED", (encoded(name),)).rowcount)


def delta(connection: Connection, tree: int, since: int) -> Delta:
    """Return what has changed since a state."""
    rows = connection.execute(
        "SELECT id, file_hash, record FROM toolindex.entry WHERE tree_id = %(tree)s AND "
        # The other tools of a changed file are included, so that files are always complete.
        "(generation > %(since)s OR record IS NOT NULL AND path IN (SELECT path "
        "FROM toolindex.entry WHERE tree_id = %(tree)s AND generation > %(since)s)) ORDER BY id",
        {"tree": tree, "since": since},
    ).fetchall()
    aliased = connection.execute(
        "SELECT id, aliases FROM toolindex.entry "
        "WHERE tree_id = %s AND aliased > %s AND aliased > 0 AND record IS NOT NULL",
        (tree, since),
    )
    return Delta(
        changed=[record_of(text) for *_, text in rows if text is not None],
        removed={decoded(id_): file_hash for id_, file_hash, text in rows if text is None},
        aliases={decoded(id_): json.loads(texts) for id_, texts in aliased},
    )


def knows(connection: Connection, tree: int, generation: int) -> bool:
    """Return whether a tree was in a state, not too many states ago."""
    row = connection.execute(
        "SELECT 1 FROM toolindex.step WHERE tree_id = %s AND generation = %s", (tree, generation)
    ).fetchone()
    return row is not None


def listing(connection: Connection, tree: int) -> dict[str, tuple[str, str]]:
    """Return the path and the file's hash of each tool, by id."""
    rows = connection.execute(
        "SELECT id, path, file_hash FROM toolindex.entry WHERE tree_id = %s AND record IS NOT NULL",
        (tree,),
    )
    return {decoded(id_): (decoded(path), file_hash) for id_, path, file_hash in rows}


def records(connection: Connection, tree: int, ids: Collection[str]) -> list[ToolRecord]:
    """Return the records of some tools with their definitions."""
    rows = connection.execute(
        "SELECT record, definitions FROM toolindex.entry "
        "WHERE tree_id = %s AND id = ANY (%s) AND record IS NOT NULL ORDER BY id",
        (tree, [encoded(id_) for id_ in ids]),
    )
    return [record_of(record, parts) for record, parts in rows]


def portions(
    connection: Connection, tree: int, paths: Collection[str]
) -> Iterator[list[ToolRecord]]:
    """Yield the records of some files, without definitions, some thousand whole files at a time."""
    portion: list[ToolRecord] = []
    statement = (
        "SELECT record FROM toolindex.entry WHERE tree_id = %s AND path = ANY (%s) "
        "AND record IS NOT NULL ORDER BY path, id"
    )
    for (text,) in _rows(connection, statement, (tree, [encoded(path) for path in paths])):
        record = record_of(text)
        if len(portion) >= _BATCH and portion[-1].path != record.path:
            yield portion
            portion = []
        portion.append(record)
    if portion:
        yield portion


def _rows(
    connection: Connection, statement: str, parameters: Sequence[object], *, binary: bool = False
) -> Iterator[tuple[Any, ...]]:
    """Yield rows, fetched in portions, so that no statement takes long or needs much memory."""
    # Not with a cursor object, which would close itself on a connection that is used elsewhere.
    with connection.cursor(binary=binary) as cursor:
        name = f"portions_{next(_CURSORS)}"
        cursor.execute(f"DECLARE {name} CURSOR FOR {statement}".encode(), parameters)
        while rows := cursor.execute(f"FETCH {_BATCH} FROM {name}".encode()).fetchall():
            yield from rows
        cursor.execute(f"CLOSE {name}".encode())


def aliases_of_all(connection: Connection, tree: int) -> dict[str, list[str]]:
    """Return the aliases of every tool that has any, by id."""
    rows = connection.execute(
        "SELECT id, aliases FROM toolindex.entry "
        "WHERE tree_id = %s AND aliases <> '[]' AND record IS NOT NULL",
        (tree,),
    )
    return {decoded(id_): json.loads(texts) for id_, texts in rows}


def vectors_since(connection: Connection, tree: int, since: int) -> Iterator[Vectors]:
    """Yield the vectors that a tree's tools have received since a state, newest last."""
    statement = (
        "SELECT model, dimensions, text_hash, v, generation FROM toolindex.tree_vector AS v "
        "WHERE tree_id = %s AND generation > %s AND EXISTS (SELECT FROM toolindex.entry AS e "
        "WHERE e.tree_id = v.tree_id AND e.text_hash = v.text_hash AND e.record IS NOT NULL) "
        # A tool may have returned to a text whose vector is older.
        "UNION ALL SELECT model, dimensions, text_hash, v, generation "
        "FROM toolindex.tree_vector WHERE tree_id = %s AND generation <= %s AND text_hash IN "
        "(SELECT text_hash FROM toolindex.entry WHERE tree_id = %s AND generation > %s "
        "AND record IS NOT NULL) ORDER BY 5, 1, 2, 3"
    )
    kind, alike = ("", 0), dict[str, "array[float]"]()
    parameters = (tree, since) * 3
    for model, length, text_hash, v, _ in _rows(connection, statement, parameters, binary=True):
        if alike and ((model, length) != kind or len(alike) == _BATCH):
            yield decoded(kind[0]), alike
            alike = {}
        kind = model, length
        alike[text_hash] = as_floats(v)
    if alike:
        yield decoded(kind[0]), alike


def vectors_of(
    connection: Connection, model: str, hashes: Collection[str], dimensions: int
) -> dict[str, array[float]]:
    """Return a model's vectors of texts, from any tree that this role may write.

    Args:
        connection: A connection inside a transaction.
        model: The model.
        hashes: The hashes of the texts.
        dimensions: The length of the vectors, or 0 for that of the newest tree.
    """
    found: dict[int, dict[str, array[float]]] = {}
    for part in _parts(hashes):
        rows = connection.execute(
            "SELECT dimensions, text_hash, v FROM toolindex.tree_vector "
            "WHERE model = %s AND text_hash = ANY (%s) "
            # Vectors stored by roles that may not write here are not trusted.
            "AND (NOT row_security_active('toolindex.tree_vector') OR tree_id = ANY "
            "((SELECT toolindex.trees(current_user, true))::int[])) ORDER BY tree_id",
            (encoded(model), part),
            binary=True,
        )
        for length, text_hash, v in rows:
            found.setdefault(length, {})[text_hash] = as_floats(v)
    return found.get(dimensions or next(reversed(found), 0), {})


def push(connection: Connection, now: State, plan: SyncPlan) -> int:
    """Apply the plan of a sync; return the new generation."""
    generation = _next(now)
    changed = [*plan.added, *plan.updated, *plan.reread]
    for part in _parts(sorted(changed, key=lambda record: str(record.id))):
        rows = [
            (encoded(str(it.id)), encoded(it.path), it.file_hash, it.text_hash, *record_texts(it))
            for it in part
        ]
        connection.execute(
            "INSERT INTO toolindex.entry "
            "(tree_id, id, path, file_hash, text_hash, record, definitions, generation) "
            "SELECT %s, given.*, %s FROM unnest"
            "(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[]) AS given "
            "ON CONFLICT (tree_id, id) DO UPDATE SET path = excluded.path, "
            "file_hash = excluded.file_hash, text_hash = excluded.text_hash, "
            "record = excluded.record, definitions = excluded.definitions, "
            "generation = excluded.generation",
            (now.tree, generation, *map(list, zip(*rows, strict=True))),
        )
    if plan.moved:
        # As in the copies, a renamed file keeps the vectors of its text.
        ids, hashes = zip(*plan.moved, strict=True)
        old = [encoded(id_) for id_ in ids]
        rows = connection.execute(
            "SELECT e.text_hash, given.new FROM unnest(%s::text[], %s::text[]) AS given (id, new) "
            "JOIN toolindex.entry AS e ON e.tree_id = %s AND e.id = given.id",
            (old, list(hashes), now.tree),
        ).fetchall()
        pairs = [list(it) for it in zip(*rows, strict=True)] or [[], []]
        connection.execute(
            "INSERT INTO toolindex.tree_vector "
            "(tree_id, model, dimensions, text_hash, generation, v) "
            "SELECT DISTINCT ON (v.model, v.dimensions, given.new) "
            "v.tree_id, v.model, v.dimensions, given.new, %s, v.v "
            "FROM unnest(%s::text[], %s::text[]) AS given (old, new) "
            "JOIN toolindex.tree_vector AS v ON v.tree_id = %s AND v.text_hash = given.old "
            "ON CONFLICT DO NOTHING",
            (generation, *pairs, now.tree),
        )
    connection.execute(
        # A restored tool has no aliases, even in a copy that never saw it removed.
        "UPDATE toolindex.entry SET record = NULL, definitions = '\"\"', generation = %(new)s, "
        "aliased = CASE aliases WHEN '[]' THEN aliased ELSE %(new)s END, aliases = '[]' "
        "WHERE tree_id = %(tree)s AND id = ANY (%(gone)s)",
        {"new": generation, "tree": now.tree, "gone": [encoded(id_) for id_ in plan.removed]},
    )
    return _moved_on(connection, now.tree, generation)


def set_reader(
    connection: Connection, tree: int, reader_version: str, *, is_complete: bool
) -> None:
    """Record which reader made a tree's records, and whether they cover all its files."""
    connection.execute(
        "UPDATE toolindex.tree SET reader_version = %s, is_complete = %s WHERE tree_id = %s",
        (encoded(reader_version), is_complete, tree),
    )


def push_aliases(
    connection: Connection, now: State, aliases: Mapping[str, Sequence[str]], keep: Collection[str]
) -> int:
    """Set the aliases of tools, except some, from a mapping; return the new generation."""
    kept = frozenset(keep)
    held = {id_: it for id_, it in aliases_of_all(connection, now.tree).items() if id_ not in kept}
    wanted = {id_: list(texts) for id_, texts in aliases.items() if id_ not in kept}
    changed = {id_: texts for id_, texts in wanted.items() if held.get(id_, []) != texts}
    changed |= {id_: [] for id_ in held if id_ not in wanted}
    generation = _next(now)
    done = connection.execute(
        "UPDATE toolindex.entry AS e SET aliases = given.aliases, aliased = %s "
        "FROM unnest(%s::text[], %s::text[]) AS given (id, aliases) "
        "WHERE e.tree_id = %s AND e.id = given.id AND e.record IS NOT NULL",
        (
            generation,
            [encoded(id_) for id_ in changed],
            [json.dumps(texts) for texts in changed.values()],
            now.tree,
        ),
    )
    return _moved_on(connection, now.tree, generation) if done.rowcount else now.generation


def push_vectors(
    connection: Connection, now: State, model: str, vectors: Mapping[str, array[float]]
) -> int:
    """Add vectors of one length to a tree; return the new generation.

    Args:
        connection: A connection inside a transaction that holds the tree's lock.
        now: The state of the tree.
        model: The model.
        vectors: Its vectors by the hash of their text.
    """
    generation = _next(now)
    for part in _parts(sorted(vectors)):
        connection.execute(
            "INSERT INTO toolindex.tree_vector "
            "(tree_id, model, dimensions, text_hash, generation, v) "
            "SELECT %s, %s, %s, given.hash, %s, given.v "
            "FROM unnest(%s::text[], %b::bytea[]) AS given (hash, v) "
            "ON CONFLICT (tree_id, model, dimensions, text_hash) "
            "DO UPDATE SET generation = excluded.generation, v = excluded.v",
            (
                *(now.tree, encoded(model), len(vectors[part[0]]), generation, part),
                [as_bytes(vectors[it]) for it in part],
            ),
        )
    return _moved_on(connection, now.tree, generation)


def forget_vectors(connection: Connection, now: State, model: str) -> int:
    """Delete a model's vectors of a tree's texts; return the new generation.

    They are deleted in all trees that this role may write, or they would be reused from there.
    """
    connection.execute(
        "DELETE FROM toolindex.tree_vector WHERE model = %s AND text_hash IN "
        "(SELECT text_hash FROM toolindex.entry WHERE tree_id = %s)",
        (encoded(model), now.tree),
    )
    return _moved_on(connection, now.tree, _next(now))


def prune(connection: Connection, now: State) -> None:
    """Delete data that no host of a tree needs any more, in a transaction with its lock.

    These are: vectors of texts that no tool has, except the newest, because a text may come back;
    vectors of queries that were not used for three months; and removed tools, once a host that
    still has them would compare its whole copy anyway.
    """
    connection.execute(
        "DELETE FROM toolindex.tree_vector AS v USING (SELECT s.model, s.dimensions, s.text_hash, "
        "row_number() OVER (PARTITION BY s.model, s.dimensions ORDER BY s.generation DESC) AS age "
        "FROM toolindex.tree_vector AS s WHERE s.tree_id = %(tree)s AND NOT EXISTS (SELECT "
        "FROM toolindex.entry AS e WHERE e.tree_id = s.tree_id AND e.text_hash = s.text_hash "
        "AND e.record IS NOT NULL)) AS spare WHERE v.tree_id = %(tree)s AND "
        "(v.model, v.dimensions, v.text_hash) = (spare.model, spare.dimensions, spare.text_hash) "
        "AND spare.age > greatest(%(spares)s, 2 * (SELECT count(*) FROM toolindex.entry "
        "WHERE tree_id = %(tree)s AND record IS NOT NULL))",
        {"tree": now.tree, "spares": _SPARES},
    )
    for statement in (
        "DELETE FROM toolindex.query_vector "
        "WHERE tree_id = %(tree)s AND used_at < now() - interval '90 days'",
        "DELETE FROM toolindex.entry WHERE tree_id = %(tree)s AND record IS NULL AND generation < "
        "(SELECT min(generation) FROM toolindex.step WHERE tree_id = %(tree)s)",
    ):
        connection.execute(statement, {"tree": now.tree})


def _next(now: State) -> int:
    # By a random step, so that a server which has lost its last changes and then continued is never
    # in a state that a copy mistakes for its own.
    return now.generation + 1 + secrets.randbelow(_LARGEST_STEP)


def _moved_on(connection: Connection, tree: int, generation: int) -> int:
    connection.execute(
        "UPDATE toolindex.tree SET generation = %s WHERE tree_id = %s", (generation, tree)
    )
    connection.execute("INSERT INTO toolindex.step VALUES (%s, %s)", (tree, generation))
    if not secrets.randbelow(_STEPS):
        connection.execute(
            "DELETE FROM toolindex.step WHERE tree_id = %s AND generation < "
            "(SELECT min(generation) "
            "FROM (SELECT generation FROM toolindex.step WHERE tree_id = %s "
            "ORDER BY generation DESC LIMIT %s) AS last)",
            (tree, tree, _STEPS),
        )
    return generation


def _parts(items: Iterable[_T]) -> list[list[_T]]:
    every = list(items)
    return [every[start : start + _BATCH] for start in range(0, len(every), _BATCH)]


def as_floats(data: bytes) -> array[float]:
    """Return the numbers of a vector as the server stores it."""
    floats = array("f")
    floats.frombytes(data)
    if sys.byteorder == "big":
        floats.byteswap()
    return floats


def as_bytes(floats: array[float]) -> bytes:
    """Return a vector as the server stores it: little-endian float32."""
    if sys.byteorder == "big":
        floats = array("f", floats)
        floats.byteswap()
    return floats.tobytes()
