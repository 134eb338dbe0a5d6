"""One tree on the server: its state, what has changed since another, and changing it.

Every function works inside the caller's transaction. Who changes a tree holds its lock, so its
generations are committed in their order.
"""

from __future__ import annotations

import json
import secrets
import sys
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from toolindex_postgres._connection import lock_key
from toolindex_postgres._migrations import check_version
from toolindex_postgres._texts import decoded, encoded, record_of, record_texts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from toolindex import SyncPlan
    from toolscan import ToolRecord

    from toolindex_postgres._connection import Connection, Connections

__all__ = [
    "Delta",
    "State",
    "Vectors",
    "aliases_of_all",
    "as_bytes",
    "as_floats",
    "delta",
    "forget_vectors",
    "knows",
    "listing",
    "lock",
    "poll",
    "push",
    "push_aliases",
    "push_vectors",
    "records",
    "set_reader",
    "state",
    "vectors_of",
    "vectors_since",
]

Vectors = dict[tuple[str, int], dict[str, "array[float]"]]
"""Vectors by text hash, for each model and length; the last that was stored comes last."""

_T = TypeVar("_T")
_BATCH = 1_000
# Ten thousand million states fit in a bigint, many times.
_LARGEST_STEP = 1 << 19
_STEPS = 1_000
_STATE = (
    "SELECT s.version::text, s.database::text, t.tree_id::text, t.generation::text, "
    "t.reader_version, t.is_complete::text "
    "FROM toolindex.state AS s LEFT JOIN toolindex.tree AS t ON t.name = "
)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A state of a tree.

    Attributes:
        database: What tells the database from one that was made again.
        tree: The tree's number; 0 where there is no such tree yet.
        generation: Another after every change.
        reader_version: What made the records, or None before the first.
        is_complete: Whether a whole tree has been synced.
    """

    database: str
    tree: int = 0
    generation: int = 0
    reader_version: str | None = None
    is_complete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """What has changed in a tree.

    Attributes:
        changed: The tools of the files that changed.
        removed: Tools that are gone, by id, with the hash of their file.
        aliases: What tools are also found by, for those whose aliases changed.
        vectors: Vectors that are new.
    """

    changed: Sequence[ToolRecord] = ()
    removed: Mapping[str, str] = field(default_factory=dict[str, str])
    aliases: Mapping[str, Sequence[str]] = field(default_factory=dict[str, "Sequence[str]"])
    vectors: Vectors = field(default_factory=dict[tuple[str, int], dict[str, "array[float]"]])


def state(connection: Connection, name: str, where: str) -> State:
    """Return the state of a tree.

    Raises:
        SchemaError: There is no schema, or an older one.
        NewerSchemaError: A later version made it.
    """
    return _state(connection.execute(_STATE + "%s", (encoded(name),)).fetchone(), where)


def poll(connections: Connections, name: str, *, patient: bool = False) -> State:
    """Ask for the state of a tree, in one round trip and within two seconds.

    Raises:
        UnreachableStoreError: There is no answer.
        SchemaError: There is no schema, or an older one.
        NewerSchemaError: A later version made it.
    """
    return _state(connections.ask(_STATE + "$1", encoded(name), patient=patient), connections.where)


def _state(row: Sequence[str | None] | None, where: str) -> State:
    version, database, tree, generation, reader, is_complete = row or [None] * 6
    check_version(where, None if version is None else int(version))
    if tree is None:
        return State(database=database or "")
    return State(
        database=database or "",
        tree=int(tree),
        generation=int(generation or 0),
        reader_version=None if reader is None else decoded(reader),
        is_complete=is_complete == "true",
    )


def lock(connection: Connection, name: str, where: str) -> State:
    """Take the right to change a tree until the end of the transaction, and return its state.

    The tree is made if there is none.
    """
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock_key("tree", name),))
    now = state(connection, name, where)
    if now.tree:
        return now
    connection.execute("INSERT INTO toolindex.tree (name) VALUES (%s)", (encoded(name),))
    return state(connection, name, where)


def delta(connection: Connection, tree: int, since: int) -> Delta:
    """Return what has changed since a state."""
    rows = connection.execute(
        "SELECT id, file_hash, record FROM toolindex.entry WHERE tree_id = %(tree)s AND "
        # Another tool of a file that changed is told of as well, so that a file is always whole.
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
        vectors=vectors_since(connection, tree, since),
    )


def knows(connection: Connection, tree: int, generation: int) -> bool:
    """Return whether a tree was in a state, and not too many states ago."""
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


def records(
    connection: Connection, tree: int, ids: Collection[str], *, whole: bool = False
) -> list[ToolRecord]:
    """Return the records of some tools.

    Args:
        connection: A connection inside a transaction.
        tree: The tree.
        ids: The tools.
        whole: With their definitions.
    """
    rows = connection.execute(
        "SELECT record, CASE WHEN %s THEN definitions ELSE '\"\"' END FROM toolindex.entry "
        "WHERE tree_id = %s AND id = ANY (%s) AND record IS NOT NULL ORDER BY id",
        (whole, tree, [encoded(id_) for id_ in ids]),
    )
    return [record_of(record, parts) for record, parts in rows]


def aliases_of_all(connection: Connection, tree: int) -> dict[str, list[str]]:
    """Return the aliases of every tool that has any, by id."""
    rows = connection.execute(
        "SELECT id, aliases FROM toolindex.entry "
        "WHERE tree_id = %s AND aliases <> '[]' AND record IS NOT NULL",
        (tree,),
    )
    return {decoded(id_): json.loads(texts) for id_, texts in rows}


def vectors_since(connection: Connection, tree: int, since: int) -> Vectors:
    """Return the vectors that a tree has got since a state."""
    links = connection.execute(
        "SELECT model, dimensions, text_hash FROM toolindex.tree_vector "
        "WHERE tree_id = %s AND generation > %s ORDER BY generation, text_hash",
        (tree, since),
    ).fetchall()
    wanted: dict[str, list[str]] = {}
    for model, _, text_hash in links:
        wanted.setdefault(model, []).append(text_hash)
    held = {
        (model, *key): vector
        for model, hashes in wanted.items()
        for key, vector in _vectors(connection, model, hashes)
    }
    found: Vectors = {}
    for model, dimensions, text_hash in links:
        if (vector := held.get((model, dimensions, text_hash))) is not None:
            found.setdefault((decoded(model), dimensions), {})[text_hash] = vector
    return found


def vectors_of(
    connection: Connection, model: str, hashes: Collection[str], dimensions: int
) -> dict[str, array[float]]:
    """Return the vectors that a model gave texts, for whichever tree, by the hashes of the texts.

    Args:
        connection: A connection inside a transaction.
        model: The model.
        hashes: The hashes.
        dimensions: The length of the vectors, or 0 for that which was stored last.
    """
    found = _vectors(connection, encoded(model), list(hashes))
    if found and not dimensions:
        dimensions = found[-1][0][0]
    return {text_hash: vector for (length, text_hash), vector in found if length == dimensions}


def _vectors(
    connection: Connection, model: str, hashes: Sequence[str]
) -> list[tuple[tuple[int, str], array[float]]]:
    found: list[tuple[tuple[int, str], array[float]]] = []
    for part in _parts(hashes):
        rows = connection.execute(
            "SELECT dimensions, text_hash, v FROM toolindex.vectors_of(%s, %s)",
            (model, part),
            binary=True,
        )
        found += [((length, text_hash), as_floats(v)) for length, text_hash, v in rows]
    return found


def push(connection: Connection, now: State, plan: SyncPlan) -> int:
    """Carry out what a sync has planned; return the new generation."""
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
        # As in the copies: a file that was renamed keeps the vectors of its text.
        ids, hashes = zip(*plan.moved, strict=True)
        old = [encoded(id_) for id_ in ids]
        rows = connection.execute(
            "SELECT e.text_hash, given.new FROM unnest(%s::text[], %s::text[]) AS given (id, new) "
            "JOIN toolindex.entry AS e ON e.tree_id = %s AND e.id = given.id",
            (old, list(hashes), now.tree),
        ).fetchall()
        pairs = [list(it) for it in zip(*rows, strict=True)] or [[], []]
        connection.execute("SELECT toolindex.copy_vectors(%s, %s)", pairs)
        connection.execute(
            "INSERT INTO toolindex.tree_vector (tree_id, model, dimensions, text_hash, generation) "
            "SELECT DISTINCT v.tree_id, v.model, v.dimensions, given.new, %s "
            "FROM unnest(%s::text[], %s::text[]) AS given (old, new) "
            "JOIN toolindex.tree_vector AS v ON v.tree_id = %s AND v.text_hash = given.old "
            "ON CONFLICT DO NOTHING",
            (generation, *pairs, now.tree),
        )
    connection.execute(
        "UPDATE toolindex.entry SET record = NULL, definitions = '\"\"', aliases = '[]', "
        "generation = %s WHERE tree_id = %s AND id = ANY (%s)",
        (generation, now.tree, [encoded(id_) for id_ in plan.removed]),
    )
    return _moved_on(connection, now.tree, generation)


def set_reader(
    connection: Connection, tree: int, reader_version: str, *, is_complete: bool
) -> None:
    """Note what made the records of a tree, and whether they are those of all its files."""
    connection.execute(
        "UPDATE toolindex.tree SET reader_version = %s, is_complete = %s WHERE tree_id = %s",
        (encoded(reader_version), is_complete, tree),
    )


def push_aliases(
    connection: Connection, now: State, aliases: Mapping[str, Sequence[str]], keep: Collection[str]
) -> int:
    """Make the aliases of all tools but some equal to a mapping; return the new generation."""
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


def push_vectors(connection: Connection, now: State, vectors: Vectors, *, kept: bool) -> int:
    """Give a tree vectors; return the new generation.

    Args:
        connection: A connection inside a transaction that holds the tree's lock.
        now: The state of the tree.
        vectors: The vectors.
        kept: Whether the server has them already, from another tree.
    """
    generation = _next(now)
    for (model, dimensions), by_hash in vectors.items():
        for part in _parts(sorted(by_hash)):
            if not kept:
                connection.execute(
                    "SELECT toolindex.keep_vectors(%s, %s, %s, %b)",
                    (encoded(model), dimensions, part, [as_bytes(by_hash[it]) for it in part]),
                )
            connection.execute(
                "INSERT INTO toolindex.tree_vector "
                "(tree_id, model, dimensions, text_hash, generation) "
                "SELECT %s, %s, %s, given, %s FROM unnest(%s::text[]) AS given "
                "ON CONFLICT (tree_id, model, dimensions, text_hash) "
                "DO UPDATE SET generation = excluded.generation",
                (now.tree, encoded(model), dimensions, generation, part),
            )
    return _moved_on(connection, now.tree, generation)


def forget_vectors(connection: Connection, now: State, model: str) -> None:
    """Forget what a model gave for the tools of a tree, so that no host is given it again."""
    connection.execute(
        "SELECT toolindex.forget_vectors(%s, "
        "(SELECT array_agg(text_hash) FROM toolindex.entry WHERE tree_id = %s))",
        (encoded(model), now.tree),
    )


def _next(now: State) -> int:
    # By a random step, so that a server which has lost its last changes, and has moved on from
    # there, is never in a state that a copy takes for its own.
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
    """Return the numbers of a vector as the server keeps it."""
    floats = array("f")
    floats.frombytes(data)
    if sys.byteorder == "big":
        floats.byteswap()
    return floats


def as_bytes(floats: array[float]) -> bytes:
    """Return a vector as the server keeps it: little-endian float32."""
    if sys.byteorder == "big":
        floats = array("f", floats)
        floats.byteswap()
    return floats.tobytes()
