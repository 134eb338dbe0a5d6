"""A shared store keeps the contract of stores, even between two hosts."""

from contextlib import ExitStack, contextmanager
from itertools import count

import psycopg
from toolindex.testing import check_store
from toolindex_postgres import SharedStore

from .sqlite_store import SQLiteStore


def test_a_shared_store_keeps_the_contract_between_two_hosts(database, tmp_path):
    numbers = count(1)

    def opened(tree):
        path = tmp_path / f"copy-{next(numbers)}.db"
        return SharedStore(SQLiteStore(path), database, tree=tree)

    @contextmanager
    def new():
        # Texts that another tree has embedded would not be pending.
        with psycopg.connect(database) as connection:
            connection.execute("TRUNCATE toolindex.tree_vector, toolindex.query_vector")
        with ExitStack() as stack:
            store = opened(f"contract {next(numbers)}")
            stack.callback(store.close)
            yield store

    @contextmanager
    def reopened(store):
        other = opened(store.tree)
        try:
            yield other
        finally:
            other.close()

    check_store(new, reopen=reopened)
