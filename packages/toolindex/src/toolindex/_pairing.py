"""Keeping the vectors in both files of an index equal, even after one of them was lost.

SQLite writes the files one after the other, so after a crash one can be older, and either can be
removed, restored or created again. Each vector in use is in both: in the index for searches, in the
other file for keeping. Both files store a change counter; if the counters differ, missing vectors
are copied in both directions.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import apsw

from toolindex._meta import bump, bump_generation, counter, get_number, set_meta
from toolindex._vectors import fill, number_rows, vector_tables

if TYPE_CHECKING:
    from toolindex._vectors import VectorTable

_VECTORS = "vectors"


def vectors_changed(connection: apsw.Connection) -> None:
    """Record in both files, in a write transaction, that vectors were stored or deleted."""
    set_meta(connection, _VECTORS, str(bump(connection, _VECTORS)))


def agree(connection: apsw.Connection) -> bool:
    return get_number(connection, _VECTORS) == counter(connection, _VECTORS)


def reconcile(connection: apsw.Connection) -> None:
    """Copy to each of the two files, in a write transaction, vectors that only the other has."""
    number_rows(connection)
    for table in vector_tables(connection):
        try:
            with connection:
                _keep_searchable(connection, table)
        except apsw.SQLError:
            pass  # The next search will notice that the index is damaged.
    connection.execute(
        "INSERT OR IGNORE INTO models (model_id, dimensions, used_at) "
        "SELECT model_id, length(vector) / 4, 0 FROM embeddings GROUP BY model_id"
    )
    for table in vector_tables(connection):
        fill(connection, table)
    vectors_changed(connection)
    bump_generation(connection)


def _keep_searchable(connection: apsw.Connection, table: VectorTable) -> None:
    # A durable file without a counter is new, or was restored: the index's vectors are later ones.
    conflict = "IGNORE" if counter(connection, _VECTORS) else "REPLACE"
    connection.execute(
        f"INSERT OR {conflict} INTO embeddings (text_hash, model_id, stored_at, vector) "  # noqa: S608
        "SELECT e.text_hash, ?, ?, t.embedding "
        f"FROM {table.name} AS t JOIN entries AS e ON e.rowid = t.rowid",
        (table.model_id, time.time()),
    )
