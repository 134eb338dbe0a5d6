"""The SQLite store keeps the promises of toolindex's `ToolStore`, even with other processes."""

import itertools
import subprocess
import sys
from contextlib import contextmanager
from inspect import getsource
from math import cos, sin

import pytest
from pytools_hybrid.index import SQLiteStore
from toolindex import ToolFilter
from toolindex._connection import ConnectionPool
from toolindex.testing import check_store
from toolscan import scan

from .conftest import PATIENCE


def wait_for_other_writers(patch, patience_ms):
    """Let a write wait for one of another process, however slow that is."""
    write = ConnectionPool.write
    patch(ConnectionPool, "write", lambda pool, **_: write(pool, patience_ms=patience_ms))


# Writes to a database until it gets the path of the next one.
BUSY_WRITER = (
    f"from toolindex._connection import ConnectionPool\n{getsource(wait_for_other_writers)}\n"
    f"wait_for_other_writers(setattr, {1000 * PATIENCE})"
    """
import sys, threading
from pytools_hybrid.index import SQLiteStore

def write(path, ended):
    with SQLiteStore(path) as store:
        store.query_vectors.put("another model", {"a query": [1.0, 2.0]})
        print("writing", flush=True)
        while not ended.is_set():
            store.query_vectors.put("another model", {"a query": [1.0, 2.0]})
            # SQLite's lock is not fair: without this wait, others may never get it.
            ended.wait(0.001)

thread, ended = None, threading.Event()
for line in sys.stdin:
    ended.set()
    if thread is not None:
        thread.join()
    ended = threading.Event()
    thread = threading.Thread(target=write, args=(line.strip(), ended))
    thread.start()
ended.set()
"""
)

# Syncs the index with the tree whenever it reads a line.
FOLLOWER = """
import sys
from pytools_hybrid.index import SQLiteStore
from toolscan import scan

path, root = sys.argv[1:]
with SQLiteStore(path) as store:
    for _ in sys.stdin:
        store.sync(scan(root), reader_version="1")
        texts = store.pending("m", limit=99)
        store.put_vectors("m", {text_hash: [1.0, 0.0] for text_hash in texts})
        print("synced", flush=True)
"""


@pytest.fixture
def make(tmp_path):
    """Make a new store."""
    numbers = itertools.count()
    return lambda: SQLiteStore(tmp_path / f"{next(numbers)}.db")


@contextmanager
def running(program, *arguments):
    """Run a program that reads lines, and check that it did not fail."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
        _, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, err) == (0, "")
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)


def tell(process, line):
    """Send a line, and wait for the answer."""
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    return process.stdout.readline()


def reopened(store):
    return SQLiteStore(store.path)


def test_the_sqlite_store_passes_check_store_while_another_process_writes(make, monkeypatch):
    wait_for_other_writers(monkeypatch.setattr, 1000 * PATIENCE)
    with running(BUSY_WRITER) as writer:

        @contextmanager
        def contended():
            with make() as store:
                assert tell(writer, store.path) == "writing\n"
                yield store

        check_store(contended, reopen=reopened)


def test_the_next_search_finds_what_another_process_wrote(make, root, write_tool):
    def found(store):
        with store.reading() as reader:
            words = reader.lexical("history", where=ToolFilter(), depth=9)
            near = reader.nearest([1.0, 0.0], model_id="m", where=ToolFilter(), depth=9)
        return [hit.id for hit in words], len(near)

    with make() as store, running(FOLLOWER, store.path, root) as follower:
        store.sync(scan(root), reader_version="1")
        assert found(store) == (["mcptools:github:list_commits"], 0)
        tell(follower, "sync")
        assert found(store) == (["mcptools:github:list_commits"], 4)
        write_tool("mcptools/github/blame.py", "Show the history of a line.")
        (root / "mcptools/github/list_commits.py").unlink()
        tell(follower, "sync")
        assert found(store) == (["mcptools:github:blame"], 4)


def test_vectors_in_memory_follow_the_writes_of_others(make, root):
    with make() as store, SQLiteStore(store.path) as other:
        store.sync(scan(root), reader_version="1")
        texts = sorted(store.pending("m", limit=99))
        for turn in range(len(texts)):
            angles = {text: (turn + place) % len(texts) for place, text in enumerate(texts)}
            other.put_vectors("m", {text: (cos(at), sin(at)) for text, at in angles.items()})
            found = []
            for _ in range(4):
                with store.reading() as reader:
                    found.append(
                        reader.nearest([1.0, 0.0], model_id="m", where=ToolFilter(), depth=1)
                    )
            (best,) = found[0]
            nearest = next(text for text, at in angles.items() if at == 0)
            assert found == [[best]] * 4
            assert store.text_hashes([best.id]) == {nearest}
            assert best.score == 1
