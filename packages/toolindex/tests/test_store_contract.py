"""The contract kit passes a store in memory, and names the promise that a broken one breaks."""

import copy
import threading

import pytest
from toolindex.testing import check_store

from .broken_stores import BROKEN
from .memory_store import MemoryLease, MemoryStore, Place


def reopened(store):
    return type(store)(store.place)


def test_a_store_in_memory_keeps_every_promise():
    check_store(MemoryStore, reopen=reopened)


@pytest.mark.parametrize(
    ("store", "promise"), [pytest.param(*case, id=case[0].__name__) for case in BROKEN.items()]
)
def test_a_store_that_breaks_a_promise_fails_and_the_message_names_it(store, promise):
    with pytest.raises(AssertionError, match=promise):
        check_store(store, patience=getattr(store, "patience", 30.0))


def copied(store):
    """Open what the store held when it was opened, as a copy of a file would."""
    place = Place(state=copy.copy(store.state), locks=store.place.locks)
    place.query_vectors.update(store.place.query_vectors)
    return type(store)(place)


def locked_apart(store):
    """Open the same state, with locks that only one process sees."""
    other = type(store)(store.place)
    other.lease = lambda purpose: MemoryLease(threading.Lock())
    return other


class ClosesForAll(MemoryStore):
    @property
    def is_closed(self):
        return self.place.query_vectors.get("closed") is not None

    @is_closed.setter
    def is_closed(self, closed):
        if closed:
            self.place.query_vectors["closed"] = (1.0,)


class ForgetsAllWhenItIsClosed(MemoryStore):
    def close(self):
        if not self.is_closed:
            super().close()
            records = self.state.records
            self.place.state = type(self.state)(records=records)


@pytest.mark.parametrize(
    ("store", "reopen", "promise"),
    [
        (MemoryStore, copied, "a change is seen by every look after it, in other processes too"),
        (MemoryStore, locked_apart, "a lease is held once, among processes too"),
        (ClosesForAll, reopened, "But it raised ToolIndexError"),
        (ForgetsAllWhenItIsClosed, reopened, "what a store holds is still there"),
    ],
)
def test_a_second_handle_that_breaks_a_promise_is_found_out(store, reopen, promise):
    with pytest.raises(AssertionError, match=promise):
        check_store(store, reopen=reopen)
