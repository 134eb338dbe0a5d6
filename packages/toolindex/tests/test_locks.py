"""The locks of a process: nothing that it does with the database releases them.

On POSIX they belong to the process, and closing any descriptor of the file drops them all. Another
process that opens and closes the database would then act as the last one, and delete the log.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from toolindex import ToolIndex
from toolindex._files import INDEX

from .conftest import PATIENCE

pytest.importorskip("fcntl", reason="on Windows a lock belongs to the open file")
pytest.importorskip("sqlite3")

ONE = {"mcptools:mail:send": "Send a message."}
TWO = ONE | {"mcptools:mail:read": "Read a message."}
READERS = 8
# The bytes that a reader of any version of SQLite locks, and that the last one tries to lock.
VISIT = """
import fcntl, sqlite3, sys
from contextlib import closing
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)
        print("nobody")
    except OSError:
        print("somebody")
with closing(sqlite3.connect(sys.argv[1])) as connection:
    print(*sorted(id for (id,) in connection.execute("SELECT id FROM entries")))
"""


def read_at_once(index):
    """Make the pool open as many connections as there are readers."""
    barrier = Barrier(READERS)

    def read(_):
        with index.reading() as reader:
            barrier.wait(PATIENCE)
            return reader.generation()

    with ThreadPoolExecutor(READERS) as threads:
        assert len(set(threads.map(read, range(READERS)))) == 1


def open_again(index):
    ToolIndex(index.path).close()


def open_for_reading(index):
    with ToolIndex(index.path, read_only=True) as other:
        read_at_once(other)


def open_for_reading_and_then_write(index):
    with ToolIndex(index.path, read_only=True) as other:
        assert other.try_writing()


def ask_whose_it_is(index):
    # The id of a new index may still be in its log.
    assert ToolIndex.application_id(index.path) in {0, INDEX.application_id}


@pytest.fixture
def visit(path, start):
    """Read the index in a separate process, and close it there.

    Return whether another process had it open, and the ids that were found.
    """

    def in_another_process():
        out, err = start(VISIT, path).communicate(timeout=PATIENCE)
        assert err == ""
        who, *ids = out.split()
        return who, ids

    return in_another_process


@pytest.mark.parametrize(
    "act",
    [
        read_at_once,
        open_again,
        open_for_reading,
        open_for_reading_and_then_write,
        ask_whose_it_is,
    ],
)
@pytest.mark.parametrize("is_new", [True, False], ids=["a new index", "an old index"])
def test_a_process_that_closes_the_index_leaves_the_log_to_others_that_use_it(
    path, fill, visit, act, is_new
):
    log = path.with_name("search.db-wal")
    if not is_new:
        with ToolIndex(path) as index:
            fill(index, {})
    with ToolIndex(path) as index:
        fill(index, ONE)
        act(index)
        before = log.stat().st_ino
        assert visit() == ("somebody", sorted(ONE))
        assert log.stat().st_ino == before
        fill(index, TWO)
        assert visit() == ("somebody", sorted(TWO))
        assert log.stat().st_ino == before
    assert visit() == ("nobody", sorted(TWO))


def test_reading_the_application_id_repeatedly_leaks_no_descriptors(index, path):
    descriptors = Path("/proc/self/fd")
    if not descriptors.is_dir():
        pytest.skip("descriptors cannot be counted here")
    ToolIndex.application_id(path)
    before = len(list(descriptors.iterdir()))
    for _ in range(20):
        ToolIndex.application_id(path)
    assert len(list(descriptors.iterdir())) <= before


@pytest.mark.parametrize(
    "content", [b"", b"x", b"SQLite format 3\0", b"text" * 99], ids=["none", "short", "cut", "long"]
)
def test_a_file_that_is_not_a_database_has_no_application_id(path, content):
    path.write_bytes(content)
    assert ToolIndex.application_id(path) is None


def test_reading_the_application_id_of_a_missing_file_is_an_error(path):
    with pytest.raises(FileNotFoundError):
        ToolIndex.application_id(path)
    assert not path.exists()
