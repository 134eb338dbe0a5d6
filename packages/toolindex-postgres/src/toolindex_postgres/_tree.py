"""Reading one tree on the server: its state, its tools and vectors, and what has changed.

Every function works inside the caller's transaction. Changing a tree requires its lock, so its
states are committed in order. Rows that cannot be read are left out, and added to `left_out`.
"""

from __future__ import annotations

import math
import sys
from array import array
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from toolindex import VectorError, check_dimensions

from toolindex_postgres._migrations import check_version
from toolindex_postgres._texts import aliases_of, decoded, encoded, record_of, shown
from toolindex_postgres.errors import UnreadableRowError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from toolscan import ToolRecord

    from toolindex_postgres._connection import Connection
    from toolindex_postgres._pool import Connections

Vectors = tuple[str, dict[str, "array[float]"]]
"""A model and some of its vectors, all of one length, by text hash."""
LeftOut = dict[str, str]
"""The reasons why rows cannot be read, by display name. A row that can be read is removed."""

_T = TypeVar("_T")
_BATCH = 1_000
# As much as a slow line carries in the time of one statement.
_MOST_CHANGES = 1_000
_CURSORS = count(1)
_ROW = "id, path, file_hash, text_hash, record"
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


class Unreadable(NamedTuple):
    """A row that cannot be read.

    Attributes:
        table: Its table.
        key: Its primary key, besides the tree.
        name: Its display name.
        reason: Why it cannot be read.
    """

    table: str
    key: Mapping[str, str | int]
    name: str
    reason: str


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
        # With a version that cannot be decoded, every host reads its files again.
        reader_version=None if reader is None else shown(reader),
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


def delta(connection: Connection, tree: int, since: int, left_out: LeftOut) -> Delta | None:
    """Return what has changed since a state; None if it is too much for one statement."""
    rows = connection.execute(
        f"SELECT {_ROW} FROM toolindex.entry WHERE tree_id = %(tree)s AND "  # noqa: S608
        # The other tools of a changed file are included, so that files are always complete.
        "(generation > %(since)s OR record IS NOT NULL AND path IN (SELECT path "
        "FROM toolindex.entry WHERE tree_id = %(tree)s AND generation > %(since)s)) "
        "ORDER BY id LIMIT %(most)s".encode(),
        {"tree": tree, "since": since, "most": _MOST_CHANGES + 1},
    ).fetchall()
    aliased = connection.execute(
        "SELECT id, aliases FROM toolindex.entry WHERE tree_id = %s AND aliased > %s "
        "AND aliased > 0 AND record IS NOT NULL LIMIT %s",
        (tree, since, _MOST_CHANGES + 1),
    ).fetchall()
    if max(len(rows), len(aliased)) > _MOST_CHANGES:
        return None
    changed = list(_records(rows, left_out))
    here = {encoded(str(record.id)) for record in changed}
    return Delta(
        changed=changed,
        # A tool whose record cannot be read is removed, too.
        removed={shown(id_): file_hash for id_, _, file_hash, *_ in rows if id_ not in here},
        aliases=_aliases(aliased, left_out),
    )


def knows(connection: Connection, tree: int, generation: int) -> bool:
    """Return whether a state is among the last states of a tree."""
    row = connection.execute(
        "SELECT 1 FROM toolindex.step WHERE tree_id = %s AND generation = %s", (tree, generation)
    ).fetchone()
    return row is not None


def listing(connection: Connection, tree: int, left_out: LeftOut) -> dict[str, tuple[str, str]]:
    """Return the path and the file's hash of each tool, by id."""
    rows = _rows(
        connection,
        "SELECT id, path, file_hash FROM toolindex.entry WHERE tree_id = %s AND record IS NOT NULL",
        (tree,),
    )
    listed: dict[str, tuple[str, str]] = {}
    for id_, path, file_hash in rows:
        name = "id"
        try:
            id_, name = decoded(id_), "path"
            listed[id_] = decoded(path), file_hash
        except ValueError:
            # No record has such a key.
            left_out[shown(id_)] = f"its record has a different {name}"
    return listed


def records(
    connection: Connection, tree: int, ids: Collection[str], where: str
) -> list[ToolRecord]:
    """Return the records of some tools with their definitions.

    Raises:
        UnreadableRowError: One of them cannot be read.
    """
    rows = connection.execute(
        f"SELECT {_ROW}, definitions FROM toolindex.entry "  # noqa: S608
        "WHERE tree_id = %s AND id = ANY (%s) AND record IS NOT NULL ORDER BY id".encode(),
        (tree, [encoded(id_) for id_ in ids]),
    )
    found: list[ToolRecord] = []
    for *row, definitions in rows:
        try:
            found.append(record_of(row, definitions))
        except ValueError as error:
            raise UnreadableRowError(where, shown(row[0]), str(error)) from error
    return found


def portions(
    connection: Connection, tree: int, paths: Collection[str], left_out: LeftOut
) -> Iterator[list[ToolRecord]]:
    """Yield the records of some files, without definitions, about a thousand at a time.

    The records of a file are never split.
    """
    portion: list[ToolRecord] = []
    statement = (
        f"SELECT {_ROW} FROM toolindex.entry WHERE tree_id = %s AND path = ANY (%s) "  # noqa: S608
        "AND record IS NOT NULL ORDER BY path, id"
    )
    rows = _rows(connection, statement, (tree, [encoded(path) for path in paths]))
    for record in _records(rows, left_out):
        if len(portion) >= _BATCH and portion[-1].path != record.path:
            yield portion
            portion = []
        portion.append(record)
    if portion:
        yield portion


def _records(rows: Iterable[tuple[Any, ...]], left_out: LeftOut) -> Iterator[ToolRecord]:
    for row in rows:
        left_out.pop(shown(row[0]), None)
        if row[-1] is None:
            continue
        try:
            yield record_of(row)
        except ValueError as error:
            left_out[shown(row[0])] = str(error)


def _aliases(rows: Iterable[tuple[Any, ...]], left_out: LeftOut) -> dict[str, list[str]]:
    aliases: dict[str, list[str]] = {}
    for id_, text in rows:
        name = _name_of_aliases(id_)
        left_out.pop(name, None)
        try:
            aliases[shown(id_)] = aliases_of(text)
        except ValueError as error:
            left_out[name] = str(error)
            aliases[shown(id_)] = []
    return aliases


def _name_of_aliases(id_: str) -> str:
    return f"aliases of {shown(id_)}"


def name_of_vector(model: str, text_hash: str) -> str:
    """Return the display name of a vector."""
    return f"vector of {model} for text {text_hash:.12}"


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


def aliases_of_all(connection: Connection, tree: int, left_out: LeftOut) -> dict[str, list[str]]:
    """Return the aliases of every tool that has any, by id."""
    rows = _rows(
        connection,
        "SELECT id, aliases FROM toolindex.entry "
        "WHERE tree_id = %s AND aliases <> '[]' AND record IS NOT NULL",
        (tree,),
    )
    return {id_: texts for id_, texts in _aliases(rows, left_out).items() if texts}


def vectors_since(
    connection: Connection, tree: int, since: int, left_out: LeftOut
) -> Iterator[Vectors]:
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
        name = name_of_vector(shown(model), text_hash)
        left_out.pop(name, None)
        try:
            _model_of(model)
            vector = vector_of(v, length)
        except ValueError as error:
            left_out[name] = str(error)
            continue
        if alike and ((model, length) != kind or len(alike) == _BATCH):
            yield decoded(kind[0]), alike
            alike = {}
        kind = model, length
        alike[text_hash] = vector
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
            with suppress(ValueError):
                found.setdefault(length, {})[text_hash] = vector_of(v, length)
    found = {length: vectors for length, vectors in found.items() if vectors}
    return found.get(dimensions or next(reversed(found), 0), {})


def unreadable(connection: Connection, tree: int) -> Iterator[Unreadable]:
    """Yield the rows of a tree that cannot be read."""
    columns = f"{_ROW}, definitions, aliases"
    for *row, definitions, aliases in _rows(
        connection,
        f"SELECT {columns} FROM toolindex.entry WHERE tree_id = %s AND record IS NOT NULL",  # noqa: S608
        (tree,),
    ):
        try:
            record_of(row, definitions)
            aliases_of(aliases)
        except ValueError as error:
            yield Unreadable("entry", {"id": row[0]}, shown(row[0]), str(error))
    for model, length, text_hash, v in _rows(
        connection,
        "SELECT model, dimensions, text_hash, v FROM toolindex.tree_vector WHERE tree_id = %s",
        (tree,),
        binary=True,
    ):
        try:
            _model_of(model)
            vector_of(v, length)
        except ValueError as error:
            key = {"model": model, "dimensions": length, "text_hash": text_hash}
            name = name_of_vector(shown(model), text_hash)
            yield Unreadable("tree_vector", key, name, str(error))
    for model, query_hash, v in _rows(
        connection,
        "SELECT model, query_hash, v FROM toolindex.query_vector WHERE tree_id = %s",
        (tree,),
        binary=True,
    ):
        try:
            _model_of(model)
            vector_of(v)
        except ValueError as error:
            key = {"model": model, "query_hash": query_hash}
            name = f"vector of {shown(model)} for query {query_hash:.12}"
            yield Unreadable("query_vector", key, name, str(error))


def has_right_counters(connection: Connection, tree: int) -> bool:
    """Return whether the record's counters are not below the numbers of its events."""
    row = connection.execute(
        "SELECT 1 FROM toolindex.usage AS u WHERE tree_id = %s AND EXISTS (SELECT "
        "FROM toolindex.event AS e WHERE e.tree_id = u.tree_id AND (e.no > u.last "
        "OR e.no > u.outcome AND e.search IS NULL))",
        (tree,),
    ).fetchone()
    return row is None


def without_vectors(
    connection: Connection, tree: int, model: str, dimensions: int, among: Collection[str]
) -> dict[str, str]:
    """Return the text's hash, if it is among some, by id of each tool without a model's vector."""
    rows = _rows(
        connection,
        "SELECT id, text_hash FROM toolindex.entry AS e WHERE tree_id = %s "
        "AND text_hash = ANY (%s) AND record IS NOT NULL AND NOT EXISTS (SELECT "
        "FROM toolindex.tree_vector AS v WHERE (v.tree_id, v.model, v.dimensions, v.text_hash) "
        "= (e.tree_id, %s, %s, e.text_hash))",
        (tree, list(among), encoded(model), dimensions),
    )
    return {shown(id_): text_hash for id_, text_hash in rows}


def _model_of(key: str) -> str:
    try:
        return decoded(key)
    except ValueError:
        raise ValueError("its model cannot be decoded") from None


def parts(items: Iterable[_T]) -> list[list[_T]]:
    every = list(items)
    return [every[start : start + _BATCH] for start in range(0, len(every), _BATCH)]


def vector_of(data: bytes, dimensions: int | None = None) -> array[float]:
    """Return the numbers of a vector as the server stores it.

    Raises:
        ValueError: It has another length, or no direction.
    """
    size = 4 * (dimensions if dimensions is not None else max(len(data) >> 2, 1))
    if len(data) != size:
        raise ValueError(f"it has {len(data)} bytes, not {size}")
    floats = array("f")
    floats.frombytes(data)
    if sys.byteorder == "big":
        floats.byteswap()
    try:
        check_dimensions("", len(floats))
    except VectorError:
        raise ValueError(f"it has {len(floats)} numbers, which is too many") from None
    length = math.hypot(*floats)
    if not length or not math.isfinite(length):
        raise ValueError("it is not finite, or all zeros")
    return floats


def as_bytes(floats: array[float]) -> bytes:
    """Return a vector as the server stores it: little-endian float32."""
    if sys.byteorder == "big":
        floats = array("f", floats)
        floats.byteswap()
    return floats.tobytes()
