"""The contract kit passes a store in memory, and names what is wrong with a broken one."""

from .memory_store import MemoryStore
from toolindex.testing import check_store


def test_a_store_in_memory_keeps_every_promise():
    check_store(MemoryStore)
