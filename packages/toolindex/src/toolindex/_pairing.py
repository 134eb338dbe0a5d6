"""Keeping the two files of an index equal in what both hold, even after one of them was lost.

SQLite writes them one after the other, so a crash can leave one of them behind, and either can be
removed, restored or made again. Each vector in use is in both: in the index to be searched, in the
other file to be kept. Both note the same number with every change; where the numbers differ, each
is given what only the other has.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import apsw

from toolindex._counters import counter, move_on
from toolindex._meta import bump_generation, get_number, set_meta
from toolindex._vectors import fill, vector_tables

if TYPE_CHECKING:
    from toolindex._vectors import VectorTable

__all__ = ["are_paired", "move_out", "pair", "vectors_changed"]

_VECTORS = "vectors"

_COPIES = (
    "INSERT OR IGNORE INTO kept.embeddings (text_hash, model_id, stored_at, vector) "
    "SELECT text_hash, model_id, stored_at, vector FROM main.embeddings",
    "INSERT OR IGNORE INTO kept.refusals (model_id, text_hash, reason, at, times) "
    "SELECT model_id, text_hash, reason, at, times FROM main.refusals",
    "INSERT OR IGNORE INTO kept.query_embeddings (model_id, query_hash, used_at, vector) "
    "SELECT model_id, query_hash, used_at, vector FROM main.query_embeddings",
    "INSERT OR IGNORE INTO kept.searches "
    "(id, at, query, mode, parameters, results, latency_ms, degraded) "
    "SELECT id, at, query, mode, parameters, results, latency_ms, degraded "
    "FROM main.searches ORDER BY rowid",
    "INSERT OR IGNORE INTO kept.outcomes (rowid, at, tool_id, success, latency_ms, search_id) "
    "SELECT rowid, at, tool_id, success, latency_ms, search_id FROM main.outcomes",
    # Where the other file has outcomes already, from an index that was here before. By time, since
    # one tool may have a hundred thousand of them.
    "INSERT INTO kept.outcomes (at, tool_id, success, latency_ms, search_id) "
    "SELECT at, tool_id, success, latency_ms, search_id FROM main.outcomes AS o "
    "WHERE NOT EXISTS (SELECT 1 FROM kept.outcomes AS k INDEXED BY outcomes_by_time "
    "WHERE k.at = o.at AND k.tool_id = o.tool_id AND k.success = o.success "
    "AND k.latency_ms IS o.latency_ms AND k.search_id IS o.search_id)",
)


def move_out(connection: apsw.Connection) -> int:
    """Copy what an index of one file holds into the file beside it, and count what was new.

    Args:
        connection: A connection to both, inside a write transaction.
    """
    before = connection.total_changes()
    for statement in _COPIES:
        connection.execute(statement)
    copied = connection.total_changes() - before
    if copied:
        # Else both would say 0, as do an index with vectors and a new file beside it.
        move_on(connection, _VECTORS)
    return copied


def vectors_changed(connection: apsw.Connection) -> None:
    """Note in both files that vectors were stored or forgotten.

    Args:
        connection: A connection to both, inside a write transaction.
    """
    set_meta(connection, _VECTORS, str(move_on(connection, _VECTORS)))


def are_paired(connection: apsw.Connection) -> bool:
    """Return whether both files are in the same state, as far as vectors go."""
    return get_number(connection, _VECTORS) == counter(connection, _VECTORS)


def pair(connection: apsw.Connection) -> None:
    """Copy to each of the two files the vectors that only the other has.

    Args:
        connection: A connection to both, inside a write transaction.
    """
    for table in vector_tables(connection):
        try:
            with connection:
                _keep_searchable(connection, table)
        except apsw.SQLError:
            pass  # A search will find that the index is damaged.
    connection.execute(
        "INSERT OR IGNORE INTO models (model_id, dimensions, used_at) "
        "SELECT model_id, length(vector) / 4, 0 FROM embeddings GROUP BY model_id"
    )
    for table in vector_tables(connection):
        fill(connection, table)
    vectors_changed(connection)
    bump_generation(connection)


def _keep_searchable(connection: apsw.Connection, table: VectorTable) -> None:
    connection.execute(
        "INSERT OR IGNORE INTO embeddings (text_hash, model_id, stored_at, vector) "  # noqa: S608
        "SELECT e.text_hash, ?, ?, t.embedding "
        f"FROM {table.name} AS t JOIN entries AS e ON e.rowid = t.rowid",
        (table.model_id, time.time()),
    )
