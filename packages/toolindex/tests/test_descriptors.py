"""A process with too many open files gets an error that says so, and the index is durable."""

from contextlib import closing

import apsw
import pytest
from toolindex import ToolIndex

pytest.importorskip("resource", reason="Windows has no such limit")

MANY = {f"mcptools:a:t{n}": f"Tool {n}. " + "x" * 500 for n in range(300)}
# More than any of the programs below needs.
ENOUGH = 24

# The beginning of every program: a way to leave a process only a few free descriptors.
PREAMBLE = """
import os, resource, sys
from contextlib import contextmanager
from toolindex import ToolIndex, DatabaseError
from toolindex._errors import TooManyFilesError

path, enough = sys.argv[1], int(sys.argv[2])
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))

@contextmanager
def only(free):
    taken = []
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    for _ in range(free):
        os.close(taken.pop())
    try:
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)

def outcome(act, *arguments):
    try:
        act(*arguments)
    except Exception as error:
        return type(error).__name__
    return "done"
"""


@pytest.fixture
def limited(path, start):
    """Run a program with a limit on open files, and return the words that it prints."""

    def run(program):
        out, err = start(PREAMBLE + program, path, ENOUGH).communicate(timeout=120)
        assert err == ""
        return out.split()

    return run


def set_aside_files(path):
    names = [file.name for file in path.parent.iterdir() if ".corrupt-" in file.name]
    return [name for name in names if not name.endswith(("-wal", "-shm"))]


def test_an_open_index_never_counts_as_damaged_because_few_files_can_be_opened(
    path, fill, contents, check_sound, limited
):
    with ToolIndex(path) as index:
        fill(index, MANY, model_id="m")
    program = """
def read_beside_a_reader(index):
    with index.reading(), index.reading() as reader:
        reader.connection.execute("SELECT sum(length(description)) FROM entries").get

def embed(index):
    model = f"model {free}"
    texts = index.pending(model, limit=300)
    index.put_vectors(model, {hash_: [1.0, 2.0, 3.0] for hash_ in texts})

def record(index):
    index.refuse("another", {f"text {free}": "too long"})

def open_again(index):
    ToolIndex(path).close()

with ToolIndex(path) as index:
    for act in (read_beside_a_reader, embed, record, open_again):
        for free in range(enough):
            with only(free):
                print(outcome(act, index))
            assert index.quarantine() is None
            assert outcome(act, index) == "done"
        print("done")
"""
    assert set(limited(program)) == {"done", "TooManyFilesError"}
    assert set_aside_files(path) == []
    with ToolIndex(path) as index:
        assert index.damaged is None
        assert contents(index) == MANY
    check_sound(path)


def test_an_index_can_be_opened_or_created_once_descriptors_are_free(path, limited):
    program = """
def make():
    ToolIndex(path).close()

for free in range(enough):
    with only(free):
        print(outcome(make))
print(outcome(make))
"""
    outcomes = limited(program)
    assert set(outcomes) == {"done", "TooManyFilesError"}
    assert outcomes == sorted(outcomes)
    assert set_aside_files(path) == []
    ToolIndex(path).close()


def test_the_error_names_the_missing_descriptors_and_the_remedy(path, start):
    program = """
with only(0):
    try:
        ToolIndex(path)
    except DatabaseError as error:
        print(error)
"""
    ToolIndex(path).close()
    out, err = start(PREAMBLE + program, path, ENOUGH).communicate(timeout=60)
    assert "too many files are open in this process; close" in out, err
    assert "ulimit -n" in out


def test_vectors_of_a_damaged_index_are_recovered_once_files_can_be_opened(
    path, durable, fill, limited
):
    """A new index without them would look complete."""
    with ToolIndex(path) as index:
        fill(index, MANY, model_id="m")
    with closing(apsw.Connection(str(durable))) as connection:
        connection.execute("DROP TABLE outcomes")
    program = """
def repair():
    ToolIndex(path).close()

for free in range(enough):
    with only(free):
        print(outcome(repair))
"""
    assert set(limited(program)) == {"done", "TooManyFilesError"}
    with ToolIndex(path) as index:
        fill(index, MANY)
        assert index.pending("m", limit=1) == {}
    assert len(set_aside_files(path)) == 1


def test_a_lease_is_not_granted_without_free_descriptors(path, limited):
    program = """
with ToolIndex(path) as index:
    lease = index.lease("files")
    with only(0):
        print(outcome(lambda: lease.acquire(timeout=0)))
    assert lease.acquire(timeout=0)
    lease.release()
"""
    assert limited(program) == ["TooManyFilesError"]
