"""Index the vectors of a large tree on the server, while searches and changes continue."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from itertools import islice
from threading import Lock, Thread
from typing import TYPE_CHECKING

import psycopg
from toolindex import DatabaseError

from toolindex_postgres import _near
from toolindex_postgres import _tree as tree_
from toolindex_postgres import _tree_changes as changes
from toolindex_postgres._lease import LOCK, MAKE
from toolindex_postgres._near import NearTable
from toolindex_postgres._texts import decoded, encoded

if TYPE_CHECKING:
    from toolindex_postgres._connection import Connection
    from toolindex_postgres._pool import Connections

_log = logging.getLogger(__name__)

_PORTION = 20_000
_REST_FACTOR = 20
# The last vectors are added while the tree is locked; each takes the server a few milliseconds.
_REST = 200
# Building an index that does not fit into memory takes many times as long. Besides each vector, an
# index holds a list of its neighbours.
_BYTES_PER_ROW = 1_200
_MOST_KB = 2 << 20
_LEAST_KB = 64 << 10
# Parallel workers need the same amount of shared memory; a container may only have 64 MB of it.
_SHORT = "53"


class NearBuilder:
    """Makes the tables that a tree needs, in a background thread, one at a time.

    Args:
        connections: The server; the role may write the tree.
        tree: The name of the tree.
    """

    def __init__(self, connections: Connections, tree: str) -> None:
        self._connections = connections
        self._tree = tree
        self._lock = Lock()
        self._thread: Thread | None = None
        self._building: Connection | None = None
        self._again_at = float("-inf")

    def start(self) -> None:
        """Make missing tables in the background, if that is not being done already."""
        with self._lock:
            is_idle = self._thread is None or not self._thread.is_alive()
            if is_idle and time.monotonic() >= self._again_at:
                self._thread = Thread(target=self._run, name="toolindex-near", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Stop building; the unfinished table is rolled back."""
        if (building := self._building) is not None:
            with suppress(psycopg.Error):
                building.cancel_safe(timeout=1)

    def build(self) -> int:
        """Make the tables that the tree needs; return how many were made.

        Raises:
            UnreachableStoreError: The server cannot be reached.
            DatabaseError: It refuses, or the work was stopped.
        """
        made, began = 0, time.monotonic()
        with self._connections.reading(patient=True, copies=True) as connection:
            missing = _missing(connection, self._tree)
        # Counting a million vectors takes a second, and this method is called after every change.
        self._rest(began)
        for model, length, rows in missing:
            turn = encoded(self._tree), False, encoded(f"near-{model}-{length}")
            with self._connections.writing() as connection:
                connection.execute(MAKE, turn)
            with self._connections.working() as connection:
                # If two hosts try, only one builds the table.
                if not connection.execute(LOCK, turn).rowcount:
                    continue
                self._building = connection
                try:
                    made += self._make(connection, model, length, rows)
                finally:
                    self._building = None
        return made

    def _make(self, connection: Connection, model: str, length: int, rows: int) -> bool:
        tree, where = self._tree, self._connections.where
        now = tree_.state(connection, tree, where)
        found = connection.execute(
            "SELECT * FROM toolindex.make_near(%s, %s, %s)", (now.tree, encoded(model), length)
        ).fetchone()
        if found is None:
            return False
        name, pgvector = found
        table = NearTable(name, pgvector, upto=now.generation, rows=rows)
        vectors = tree_.vectors_of_model(connection, now.tree, model, length)
        while part := list(islice(vectors, _PORTION)):
            self._check_open()
            _near.copy(connection, table, part)
        self._check_open()
        _index(connection, table, rows * (2 * length + _BYTES_PER_ROW) >> 10)
        is_late = True
        while is_late:
            self._check_open()
            state = tree_.state(connection, tree, where).generation
            new = _near.new_vectors(connection, table, now.tree, model, length)
            _near.put(connection, table, new)
            table = table._replace(upto=state)
            is_late = len(new) > _REST
        now = tree_.lock(connection, tree, where)
        rest = _near.new_vectors(connection, table, now.tree, model, length)
        _near.put(connection, table, rest)
        self._check_open()
        # The new state tells other hosts about the table.
        connection.execute(
            "SELECT toolindex.keep_near(%s, %s)", (now.tree, changes.move_on(connection, now))
        )
        return True

    def _check_open(self) -> None:
        # A request to cancel has no effect between two statements.
        if self._connections.closed:
            raise DatabaseError(self._connections.where, "the index has been closed")

    def _rest(self, began: float) -> None:
        """Do not begin again for a while that fits what the work took."""
        now = time.monotonic()
        self._again_at = now + _REST_FACTOR * (now - began)

    def _run(self) -> None:
        began = time.monotonic()
        try:
            self.build()
        except DatabaseError as error:
            # Otherwise a server without room for the index would be busy all the time.
            self._rest(began)
            _log.info("the vectors of %s were not indexed: %s", self._tree, error)


def _missing(connection: Connection, tree: str) -> list[tuple[str, int, int]]:
    """Return the models without a table, with the length and the number of their vectors."""
    rows = connection.execute(
        "SELECT v.model, v.dimensions, count(*) FROM toolindex.tree_vector AS v "
        "JOIN toolindex.tree AS t USING (tree_id) WHERE t.name = %s AND NOT EXISTS "
        "(SELECT FROM toolindex.near AS n WHERE (n.tree_id, n.model, n.dimensions) = "
        "(v.tree_id, v.model, v.dimensions)) GROUP BY 1, 2, t.tree_id HAVING count(*) > %s "
        # While a model is still embedding the tree, each new vector would be added one by one.
        "AND count(*) > .9 * (SELECT count(*) FROM toolindex.entry AS e "
        "WHERE e.tree_id = t.tree_id AND e.record IS NOT NULL)",
        (encoded(tree), _near.LARGE),
    )
    return [(decoded(model), length, count) for model, length, count in rows]


def _index(connection: Connection, table: NearTable, kilobytes: int) -> None:
    memory = min(max(kilobytes, _LEAST_KB), _MOST_KB)
    connection.execute(f"SET LOCAL maintenance_work_mem = {memory}".encode())
    try:
        with connection.transaction():
            connection.execute("SELECT toolindex.index_near(%s)", (table.name,))
    except psycopg.errors.OperationalError as error:
        if (error.sqlstate or "")[:2] != _SHORT:
            raise
        connection.execute("SET LOCAL max_parallel_maintenance_workers = 0")
        connection.execute("SELECT toolindex.index_near(%s)", (table.name,))
