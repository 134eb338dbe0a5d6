"""Changing a tree on the server; each change makes a new state, by which hosts notice it.

Every function works inside a transaction that holds the tree's lock, so states are committed in
order.
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING

from toolindex_postgres._texts import encoded, record_texts
from toolindex_postgres._tree import aliases_of_all, as_bytes, parts

if TYPE_CHECKING:
    from array import array
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from toolindex import SyncPlan

    from toolindex_postgres._connection import Connection
    from toolindex_postgres._tree import State, Unreadable

# With this step, a bigint still has room for far more than ten billion states.
_LARGEST_STEP = 1 << 19
# A larger number is not one of ours.
_LARGEST_STATE = 1 << 62
_STEPS = 1_000
# How many vectors that no tool needs are kept for each model; at least twice the number of tools.
_SPARES = 5_000


def push(connection: Connection, now: State, plan: SyncPlan) -> int:
    """Apply the plan of a sync; return the new generation."""
    generation = _next(now)
    changed = [*plan.added, *plan.updated, *plan.reread]
    for part in parts(sorted(changed, key=lambda record: str(record.id))):
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
        # The tools of a renamed file keep their vectors, as in the copies.
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
        # If the tool is restored, it has no aliases, even in a copy that never saw it removed.
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
    """Set the aliases of all tools except those in `keep`; return the new generation."""
    kept = frozenset(keep)
    every = aliases_of_all(connection, now.tree, {})
    held = {id_: it for id_, it in every.items() if id_ not in kept}
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
    for part in parts(sorted(vectors)):
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

    They are deleted in all trees that this role may write; otherwise they would be reused from
    there.
    """
    connection.execute(
        "DELETE FROM toolindex.tree_vector WHERE model = %s AND text_hash IN "
        "(SELECT text_hash FROM toolindex.entry WHERE tree_id = %s)",
        (encoded(model), now.tree),
    )
    return _moved_on(connection, now.tree, _next(now))


def discard(connection: Connection, tree: int, rows: Iterable[Unreadable]) -> None:
    """Delete rows that cannot be read, and correct the counters of the record.

    All hosts then compare their copies with the whole tree, in the transaction's new state.
    """
    connection.execute("DELETE FROM toolindex.step WHERE tree_id = %s", (tree,))
    for it in rows:
        condition = " AND ".join(f"{column} = %s" for column in it.key)
        connection.execute(
            f"DELETE FROM toolindex.{it.table} WHERE tree_id = %s AND {condition}".encode(),  # noqa: S608
            (tree, *it.key.values()),
        )
    connection.execute(
        "UPDATE toolindex.usage AS u SET last = greatest(u.last, e.last), "
        "outcome = greatest(u.outcome, e.outcome) FROM (SELECT max(no) AS last, "
        "max(no) FILTER (WHERE search IS NULL) AS outcome FROM toolindex.event "
        "WHERE tree_id = %(tree)s) AS e WHERE u.tree_id = %(tree)s AND e.last IS NOT NULL",
        {"tree": tree},
    )


def prune(connection: Connection, now: State) -> None:
    """Delete data that no host of a tree needs any more, in a transaction with its lock.

    These are: vectors of texts that no tool has, except the newest, because a text may come back;
    vectors of queries that have not been used for three months; and removed tools, once their
    removal is so old that a host that still has them compares its whole copy.
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
    # The step is random. Otherwise, a server that has lost its last changes and then continued
    # could be in a state that a copy mistakes for its own.
    before = now.generation if 0 <= now.generation < _LARGEST_STATE else 0
    return before + 1 + secrets.randbelow(_LARGEST_STEP)


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
