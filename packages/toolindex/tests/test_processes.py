"""Many processes and threads on one file, and processes that are killed."""

import os
import random
import signal
import subprocess
import sys
import threading
from contextlib import closing

import apsw
import pytest
from toolindex import DatabaseError, ToolIndex, _opening

from .conftest import PATIENCE, PATIENT

# The weekly run has more, as for the examples of property tests.
ROUNDS = int(os.environ.get("TEST_EXAMPLES", "20")) // 10

# The beginning of every program below: two states of an index, and reports that lead to them.
PREAMBLE = (
    PATIENT
    + """
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from toolscan import ScanReport, ToolId, scan
from toolindex import ToolIndex

path, tree, *arguments = sys.argv[1:]
(template,) = scan(tree).records

def record(number, state):
    description = f"Tool {number} in state {state}. " + f"{state}{number} " * 40
    digest = sha256(description.encode()).hexdigest()
    return replace(
        template,
        id=ToolId.parse(f"mcptools:mail:tool_{number}"),
        path=f"mcptools/mail/tool_{number}.py",
        description=description, file_hash=digest, text_hash=digest, stamp=None,
    )

def report(state, count):
    return ScanReport(records=tuple(record(number, state) for number in range(count)))
"""
)


@pytest.fixture
def tree(tmp_path, write_tool):
    write_tool(tmp_path / "tree", "mail", "send", "Send a message.")
    return tmp_path / "tree"


def succeed(process):
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "")
    return out


def states(contents):
    """Return the states that the descriptions are in, and the number of descriptions."""
    return {text.split(". ")[0].split()[-1] for text in contents.values()}, len(contents)


def test_processes_that_create_and_fill_one_index_at_once_all_succeed(
    path, tree, start, tmp_path, contents, check_sound
):
    program = (
        PREAMBLE
        + """
go, index_of_this = Path(arguments[0]), int(arguments[1])
print("ready", flush=True)
while not go.exists():
    pass
with ToolIndex(path) as index:
    index.sync(report("same", 30), reader_version="1")
    texts = index.pending("m", limit=100)
    index.put_vectors("m", {hash_: [1.0, 2.0, 3.0] for hash_ in texts})
"""
    )
    for turn in range(ROUNDS):
        new, go = tmp_path / f"new_{turn}" / "search.db", tmp_path / f"go_{turn}"
        processes = [start(program, new, tree, go, number) for number in range(3)]
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        go.touch()
        for process in processes:
            succeed(process)
        with ToolIndex(new) as index, index.reading() as reader:
            assert (reader.coverage("m").tools, reader.coverage("m").vectors) == (30, 30)
        check_sound(new)


def test_threads_that_create_one_index_at_once_all_succeed(tmp_path, fill, contents, patient):
    errors = []

    def make(path, barrier):
        try:
            barrier.wait(PATIENCE)
            with ToolIndex(path) as index:
                fill(index, {"mcptools:mail:send": "Send."}, model_id="m")
        except Exception as error:  # noqa: BLE001 - whatever it is, the test must see it
            errors.append(error)

    for turn in range(3 * ROUNDS):
        barrier = threading.Barrier(4)
        path = tmp_path / f"{turn}.db"
        threads = [threading.Thread(target=make, args=(path, barrier)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert errors == []
        with ToolIndex(path) as index:
            assert contents(index) == {"mcptools:mail:send": "Send."}


def test_creating_an_index_that_another_process_keeps_locked_ends_in_an_error(path, monkeypatch):
    monkeypatch.setattr(_opening, "BUSY_TIMEOUT_MS", 50)
    with closing(apsw.Connection(str(path))) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseError, match="another process holds the index locked"):
            ToolIndex(path)
        other.execute("ROLLBACK")
        ToolIndex(path).close()


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_a_sync_that_is_killed_leaves_the_state_before_or_after(
    path, tree, start, contents, check_sound
):
    program = (
        PREAMBLE
        + """
with ToolIndex(path) as index:
    print("ready", flush=True)
    while True:
        for state, count in (("one", 300), ("two", 200)):
            index.sync(report(state, count), reader_version="1")
"""
    )
    for turn in range(ROUNDS):
        process = start(program, path, tree)
        assert process.stdout.readline() == "ready\n"
        kill_within(process, random.Random(turn).uniform(0, 0.25))
        with ToolIndex(path) as index:
            assert states(contents(index)) in (({"one"}, 300), ({"two"}, 200), (set(), 0))
        check_sound(path)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_a_killed_process_leaves_whole_batches_of_vectors(path, tree, start, check_sound):
    program = (
        PREAMBLE
        + """
with ToolIndex(path) as index:
    index.sync(report("one", 400), reader_version="1")
    for turn in range(10_000):
        model = f"{arguments[0]}-{turn}"
        while texts := index.pending(model, limit=100):
            index.put_vectors(model, {hash_: [1.0 + turn, 2.0] for hash_ in texts})
            print("put", flush=True)
"""
    )
    for turn in range(ROUNDS):
        process = start(program, path, tree, turn)
        assert process.stdout.readline() == "put\n"
        kill_within(process, random.Random(turn).uniform(0, 0.25))
        # Opening copies what was written to only one of the two files: docs/decisions/0018.
        with ToolIndex(path) as index, index.reading() as reader:
            models = reader.connection.execute("SELECT model_id FROM models").fetchall()
            put = [reader.coverage(model) for (model,) in models]
        assert {coverage.tools for coverage in put} == {400}
        assert {coverage.vectors % 100 for coverage in put} == {0}
        check_sound(path)


def kill_within(process, seconds):
    """Kill a process after some seconds, at an arbitrary point of its work."""
    with pytest.raises(Exception, match="timed out"):
        process.wait(timeout=seconds)
    process.kill()
    process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGKILL


def test_an_index_works_in_a_python_without_a_usable_sqlite3(path, tree, start):
    """In many Pythons, `sqlite3` cannot load extensions, and some have no `sqlite3`."""
    program = (
        "import sys; sys.modules['sqlite3'] = None"
        + PREAMBLE
        + """
import struct
from toolindex import (IndexReader)
with ToolIndex(path) as index:
    index.sync(scan(tree), reader_version="1")
    ((text_hash, text),) = index.pending("m", limit=5).items()
    index.put_vectors("m", {text_hash: [1.0, 0.0]})
    with index.reading() as reader:
        run = reader.connection.execute
        print(run(f"SELECT count(*) FROM entries_fts WHERE entries_fts MATCH 'messages'").get)
        blob = struct.pack("<2f", 2.0, 0.0)
        nearest = f"SELECT distance FROM entries_vec WHERE embedding MATCH ? AND k = 1"
        print(run(nearest, (blob,)).get)
    print("numpy" in sys.modules)
"""
    )
    assert succeed(start(program, path, tree)).split() == ["1", "0.0", "False"]


LEAVE_A_LOG = """
import os, sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("ATTACH ? AS kept", (sys.argv[1] + "-kept",))
connection.execute("PRAGMA wal_autocheckpoint = 0")
connection.execute(
    "REPLACE INTO searches (id, at, query, mode, parameters, results, latency_ms, degraded) "
    "VALUES ('s', 1, ?, 'hybrid', '{}', '[]', 1, '[]')", ("x" * 17_000_000,)
)
connection.execute("REPLACE INTO meta VALUES ('x', ?)", ("x" * 17_000_000,))
os._exit(0)  # as if it had been killed
"""


def test_the_logs_of_a_killed_process_are_shortened(path, fill, contents):
    def log_sizes():
        logs = [path.with_name(f"{path.name}{part}-wal") for part in ("", "-kept")]
        return [log.stat().st_size for log in logs if log.exists()]

    with ToolIndex(path) as index, index.reading() as reader:
        reader.is_complete()
        subprocess.run([sys.executable, "-c", LEAVE_A_LOG, path], check=True, timeout=PATIENCE)
        assert min(log_sizes()) > 16_000_000
        # This reader needs them, and nobody waits for it.
        with ToolIndex(path) as other:
            assert contents(other) == {}
            assert max(log_sizes()) > 16_000_000
    subprocess.run([sys.executable, "-c", LEAVE_A_LOG, path], check=True, timeout=PATIENCE)
    with ToolIndex(path) as index:
        assert max(log_sizes()) < 5_000_000
        fill(index, {"mcptools:mail:send": "Send a message."})
        assert max(log_sizes()) < 5_000_000
