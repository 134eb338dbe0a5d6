"""A store in SQLite keeps the contract, and the kit rejects one that breaks it.

The app's tests run the kit over its own store, also while another process writes.
"""

import itertools
import threading
from contextlib import contextmanager

import pytest
from toolindex.testing import check_store

from .sqlite_store import SQLiteStore


class BelongsToItsThread(SQLiteStore):
    """A store that only its own thread may use, like a connection of sqlite3."""

    def __init__(self, path):
        super().__init__(path)
        self.thread = threading.get_ident()

    @contextmanager
    def reading(self):
        if threading.get_ident() != self.thread:
            raise RuntimeError("made in another thread")
        with super().reading() as reader:
            yield reader


@pytest.fixture
def paths(tmp_path):
    return (tmp_path / f"{number}.db" for number in itertools.count())


def test_a_sqlite_store_keeps_the_contract(paths, patient):
    check_store(lambda: SQLiteStore(next(paths)), reopen=lambda store: SQLiteStore(store.path))


def test_the_kit_names_the_promise_that_a_store_breaks(paths):
    with pytest.raises(AssertionError, match="Every call may come from any thread"):
        check_store(lambda: BelongsToItsThread(next(paths)))
