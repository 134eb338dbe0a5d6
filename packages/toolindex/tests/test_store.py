"""The index as an object: closing it, reading one state of it, and failures."""

import os
import signal
from contextlib import closing, contextmanager

import apsw
import pytest
from toolindex import DatabaseError, ForeignDatabaseError, ToolIndex, _opening

ONE = {"mcptools:mail:send": "Send a message."}
MANY = {f"mcptools:mail:tool_{n}": f"Tool number {n}. " + f"word{n} " * 100 for n in range(500)}


def test_closing_the_index_lets_open_readers_finish(path, fill):
    index = ToolIndex(path)
    fill(index, ONE)
    with index.reading() as reader:
        index.close()
        assert reader.coverage("m").tools == 1
    with pytest.raises(DatabaseError, match="has been closed"):
        index.pending("m", limit=1)
    assert not path.with_name("search.db-wal").exists()


def test_a_reader_that_ends_its_own_transaction_does_no_harm(index, fill, contents):
    fill(index, ONE)
    with index.reading() as reader:
        reader.connection.execute("COMMIT")
    assert contents(index) == ONE


def test_a_failed_statement_raises_a_database_error_caused_by_the_drivers(index, contents):
    with pytest.raises(DatabaseError, match="SQLite failed") as caught, index.reading() as reader:
        reader.connection.execute("SELECT * FROM missing")
    assert isinstance(caught.value.__cause__, apsw.SQLError)
    assert contents(index) == {}


def test_a_sync_that_fails_midway_changes_nothing(index, path, fill, report, contents, check_sound):
    fill(index, ONE)

    scanned = report({f"mcptools:a:t{n}": f"Tool {n}." for n in range(50)})
    broken = scanned.records[-1]
    object.__setattr__(broken, "signature", object())
    with pytest.raises(TypeError):
        index.sync(scanned, reader_version="1")
    assert contents(index) == ONE
    check_sound(path)
    fill(index, MANY)
    assert contents(index) == MANY


def test_a_lock_held_by_another_process_is_reported_as_such(
    index, path, fill, report, contents, monkeypatch
):
    fill(index, ONE)
    monkeypatch.setattr(_opening, "BUSY_TIMEOUT_MS", 10)
    with closing(apsw.Connection(str(path))) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseError, match="another process holds the index locked"):
            index.sync(report({}), reader_version="1")
        assert contents(index) == ONE
        other.execute("ROLLBACK")
    fill(index, {})
    assert contents(index) == {}


def test_a_full_disk_keeps_the_old_state(tmp_path, mounting, fill, report, contents, check_sound):
    with mounting(tmp_path / "small", "-t", "tmpfs", "-o", "size=1536k", "tmpfs") as disk:
        path = disk / "search.db"
        with ToolIndex(path) as index:
            fill(index, ONE, model_id="m")
            with pytest.raises(DatabaseError, match="disk is full; free some space"):
                index.sync(report(MANY), reader_version="1")
            assert contents(index) == ONE
            fill(index, {"mcptools:mail:read": "Small enough."})
            assert contents(index) == {"mcptools:mail:read": "Small enough."}
        check_sound(path)


@contextmanager
def file_size_limit(size):
    """Limit the size of this process's files, as a quota does."""
    resource = pytest.importorskip("resource", reason="Windows has no such limits")
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("room", [0, 100_000, 400_000])
def test_a_file_at_its_size_limit_keeps_the_old_state(
    index, path, fill, report, contents, check_sound, room
):
    """The write fails at its start, in the middle or at its end."""
    fill(index, ONE, model_id="m")
    size = path.with_name("search.db-wal").stat().st_size
    with file_size_limit(size + room), pytest.raises(DatabaseError):
        index.sync(report(MANY), reader_version="1")
    assert contents(index) == ONE
    check_sound(path)
    fill(index, MANY)
    assert contents(index) == MANY


def test_an_index_of_several_trees_belongs_to_them_while_one_exists(tmp_path):
    one, other = tmp_path / "one", tmp_path / f"with{os.pathsep}it"
    for tree in (one, other):
        tree.mkdir()
    both = f"{one}{os.pathsep}{other}"
    with ToolIndex(tmp_path / "index.db") as index:
        index.bind(both)
        index.bind(both)
        with pytest.raises(ForeignDatabaseError, match="this is the index of") as caught:
            index.bind(str(one))
        assert both in str(caught.value)
        other.rmdir()
        with pytest.raises(ForeignDatabaseError):
            index.bind(str(one))

        one.rmdir()
        index.bind(str(other))
        other.mkdir()
        with pytest.raises(ForeignDatabaseError):
            index.bind(str(one))


def test_text_that_is_not_utf8_means_a_damaged_index(tmp_path):
    with ToolIndex(tmp_path / "index.db") as index:
        other = apsw.Connection(str(index.path))
        other.execute("UPDATE meta SET value = CAST(x'ff' AS TEXT) WHERE key = 'generation'")
        other.close()
        with pytest.raises(DatabaseError, match="damaged"), index.reading() as reader:
            reader.generation()
