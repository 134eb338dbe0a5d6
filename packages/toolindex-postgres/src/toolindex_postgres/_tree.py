"""Reading one tree on the server: its state, its tools and vectors, and what has changed.

Every function works inside the caller's transaction. Changing a tree requires its lock, so its
states are committed in order.
"""

from __future__ import annotations

import json
import sys
from array import array
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from toolindex_postgres._migrations import check_version
from toolindex_postgres._texts import decoded, encoded, record_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from toolscan import ToolRecord

    from toolindex_postgres._connection import Connection
    from toolindex_postgres._pool import Connections

Vectors = tuple[str, dict[str, "array[float]"]]
"""A model and some of its vectors, all of one length, by text hash."""

_T = TypeVar("_T")
_BATCH = 1_000
# As much as a slow line carries in the time of one statement.
_MOST_CHANGES = 1_000
_CURSORS = count(1)
_LOCK = "SELECT name FROM toolindex.tree WHERE name = %s FOR NO KEY UPDATE"
STATE = "SELECT * FROM toolindex.look(%s)"


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
    """Return the state of a tree from the row that `STATE` returns.

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

    The tree is created if there is none. Its row is locked, for which a role needs the right to
    write the tree.
    """
    key = (encoded(name),)
    if not connection.execute(_LOCK, key).rowcount:
        state(connection, name, where)
        connection.execute(
            "INSERT INTO toolindex.tree (name) VALUES (%s) ON CONFLICT DO NOTHING", key
        )
        connection.execute(_LOCK, key)
    return state(connection, name, where)


def delta(connection: Connection, tree: int, since: int) -> Delta | None:
    """Return what has changed since a state; None if it is too much for one statement."""
    rows = connection.execute(
        "SELECT id, file_hash, record FROM toolindex.entry WHERE tree_id = %(tree)s AND "
        # The other tools of a changed file are included, so that files are always complete.
        "(generation > %(since)s OR record IS NOT NULL AND path IN (SELECT path "
        "FROM toolindex.entry WHERE tree_id = %(tree)s AND generation > %(since)s)) "
        "ORDER BY id LIMIT %(most)s",
        {"tree": tree, "since": since, "most": _MOST_CHANGES + 1},
    ).fetchall()
    aliased = connection.execute(
        "SELECT id, aliases FROM toolindex.entry WHERE tree_id = %s AND aliased > %s "
        "AND aliased > 0 AND record IS NOT NULL LIMIT %s",
        (tree, since, _MOST_CHANGES + 1),
    ).fetchall()
    if max(len(rows), len(aliased)) > _MOST_CHANGES:
        return None
    return Delta(
        changed=[record_of(text) for *_, text in rows if text is not None],
        removed={decoded(id_): file_hash for id_, file_hash, text in rows if text is None},
        aliases={decoded(id_): json.loads(texts) for id_, texts in aliased},
    )


def knows(connection: Connection, tree: int, generation: int) -> bool:
    """Return whether a state is among the last states of a tree."""
    row = connection.execute(
        "SELECT 1 FROM toolindex.step WHERE tree_id = %s AND generation = %s", (tree, generation)
    ).fetchone()
    return row is not None


def listing(connection: Connection, tree: int) -> dict[str, tuple[str, str]]:
    """Return the path and the file's hash of each tool, by id."""
    rows = _rows(
        connection,
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
    """Yield the records of some files, without definitions, about a thousand at a time.

    The records of a file are never split.
    """
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
    """Yield rows, fetched in batches, so that no statement takes long or needs much memory."""
    # psycopg's server-side cursor would close itself later, when the connection is used elsewhere.
    with connection.cursor(binary=binary) as cursor:
        name = f"portions_{next(_CURSORS)}"
        cursor.execute(f"DECLARE {name} CURSOR FOR {statement}".encode(), parameters)
        while rows := cursor.execute(f"FETCH {_BATCH} FROM {name}".encode()).fetchall():
            yield from rows
        cursor.execute(f"CLOSE {name}".encode())


def aliases_of_all(connection: Connection, tree: int) -> dict[str, list[str]]:
    """Return the aliases of every tool that has any, by id."""
    rows = _rows(
        connection,
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
        # The text of a tool may have been changed back to one whose vector is older.
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
        dimensions: The length of the vectors, or 0 for that in the newest tree.
    """
    found: dict[int, dict[str, array[float]]] = {}
    for part in parts(hashes):
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


def parts(items: Iterable[_T]) -> list[list[_T]]:
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
