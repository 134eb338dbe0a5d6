"""A store in memory keeps the contract of stores, and the kit refuses one that breaks it.

The app's tests run the kit over its store in SQLite, also beside a process that writes.
"""

import pytest
from toolindex.testing import check_store

from .memory_store import MemoryStore


class KeepsWhatIsGone(MemoryStore):
    def sync(self, scanned, **options):
        before = self.state.records
        report = super().sync(scanned, **options)
        self.change(records={**before, **self.state.records})
        return report


def test_a_store_in_memory_keeps_every_promise():
    check_store(MemoryStore, reopen=lambda store: MemoryStore(store.place))


def test_a_store_that_breaks_a_promise_is_refused_and_the_message_names_the_promise():
    with pytest.raises(AssertionError, match="a store holds what was scanned"):
        check_store(KeepsWhatIsGone)
