"""A store in memory keeps the contract of stores, and the kit refuses one that breaks it.

The app's tests run the kit over its store in SQLite, also beside a process that writes.
"""

import threading
from contextlib import contextmanager

import pytest
from toolindex.testing import check_store

from .memory_store import MemoryStore


class BelongsToItsThread(MemoryStore):
    """As one on a connection of sqlite3 would."""

    def __init__(self, place=None):
        super().__init__(place)
        self.thread = threading.get_ident()

    @contextmanager
    def reading(self):
        if threading.get_ident() != self.thread:
            raise RuntimeError("made in another thread")
        with super().reading() as reader:
            yield reader


def test_a_store_in_memory_keeps_every_promise():
    check_store(MemoryStore, reopen=lambda store: MemoryStore(store.place))


def test_a_store_that_breaks_a_promise_is_refused_and_the_message_names_the_promise():
    with pytest.raises(AssertionError, match="Every call may come from any thread"):
        check_store(BelongsToItsThread)
