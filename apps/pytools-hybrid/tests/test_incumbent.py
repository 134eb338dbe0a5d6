"""A database of freeact's own search at our index's path is renamed, and nothing is lost."""

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Barrier, Thread

import apsw
import pytest
import sqlite_vec
from pytools_hybrid import Roots, Settings, ToolSearch
from pytools_hybrid.index import open_store, rename_freeact_database
from toolindex import DatabaseError, ToolIndex

# Seconds to wait for anything. Scripts import this module, so it cannot import from conftest.
PATIENCE = 120
VECTORS = """
                    CREATE VIRTUAL TABLE IF NOT EXISTS entries_vec USING vec0(
                        id TEXT PRIMARY KEY,
                        embedding float[3]
                    )
                    """
WORDS = """
                    CREATE VIRTUAL TABLE IF NOT EXISTS entries_fts USING fts5(
                        id,
                        file_hash UNINDEXED,
                        description
                    )
                    """


@contextmanager
def connected(path):
    with closing(apsw.Connection(str(path))) as connection:
        connection.enable_load_extension(True)
        connection.load_extension(sqlite_vec.loadable_path())
        yield connection


def initialize(connection):
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(VECTORS)
    connection.execute(WORDS)


def add(connection, *names):
    with connection:
        for name in names:
            connection.execute(
                "INSERT INTO entries_vec (id, embedding) VALUES (?, ?)", (name, b"\0\0\x80\x3f" * 3)
            )
            connection.execute("INSERT INTO entries_fts VALUES (?, 'hash', 'Send it.')", (name,))


def names_in(path):
    """Return the tools in both tables of a database, which must be intact."""
    with connected(path) as connection:
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        vectors, words = (
            sorted(name for (name,) in connection.execute(f"SELECT id FROM {table}"))
            for table in ("entries_vec", "entries_fts")
        )
    assert vectors == words
    return words


def files_in(folder):
    return {file.name for file in folder.iterdir() if not file.name.endswith(".lock")}


@pytest.fixture
def database(tmp_path):
    folder = tmp_path / ".freeact"
    folder.mkdir()
    return folder / "search.db"


@pytest.fixture
def incumbent(database):
    with connected(database) as connection:
        initialize(connection)
        add(connection, "a", "b")
    return database


WRITE_AND_DIE = """
import os, sys
sys.path.insert(0, sys.argv[2])
from test_incumbent import add, connected, initialize
with connected(sys.argv[1]) as connection:
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    initialize(connection)
    add(connection, *sys.argv[3:])
    os._exit(0)
"""


def run(code, *arguments):
    command = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
    return subprocess.run(command, timeout=PATIENCE, check=False).returncode


def write_and_die(database, *names):
    """Commit to the log, and exit before any of it reaches the file."""
    assert run(WRITE_AND_DIE, database, Path(__file__).parent, *names) == 0
    assert database.with_name("search.db-wal").stat().st_size > 0


def test_the_database_is_renamed_completely_and_its_path_is_free(incumbent):
    aside = rename_freeact_database(incumbent)
    assert aside == incumbent.with_name("search.db.freeact")
    assert files_in(incumbent.parent) == {"search.db.freeact"}
    assert names_in(aside) == ["a", "b"]


def test_the_log_of_a_killed_process_is_kept(database):
    write_and_die(database, "a", "b", "c")
    aside = rename_freeact_database(database)
    assert files_in(database.parent) == {"search.db.freeact"}
    assert names_in(aside) == ["a", "b", "c"]


def test_tables_that_exist_only_in_the_log_are_seen(database):
    write_and_die(database)
    assert b"entries_vec" not in database.read_bytes()
    assert names_in(rename_freeact_database(database)) == []


def test_a_database_with_only_the_first_table_is_recognised(database):
    with connected(database) as connection:
        connection.execute(VECTORS)
    assert rename_freeact_database(database) == database.with_name("search.db.freeact")


def test_a_database_in_use_is_unchanged_and_the_error_says_what_to_do(database):
    write_and_die(database, "a", "b")
    with connected(database) as user:
        assert user.execute("SELECT count(*) FROM entries_fts").get == 2
        with pytest.raises(DatabaseError, match=r"freeact.*close the programs that have it open"):
            rename_freeact_database(database)
        add(user, "c")
    assert names_in(database) == ["a", "b", "c"]
    assert names_in(rename_freeact_database(database)) == ["a", "b", "c"]


def test_only_one_of_several_concurrent_callers_renames_the_database(incumbent):
    barrier, found = Barrier(4), []

    def set_aside():
        barrier.wait(PATIENCE)
        found.append(rename_freeact_database(incumbent))

    threads = [Thread(target=set_aside) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    aside = incumbent.with_name("search.db.freeact")
    assert sorted(found, key=str) == [aside, None, None, None]
    assert names_in(aside) == ["a", "b"]


def test_existing_files_are_not_overwritten(incumbent):
    incumbent.with_name("search.db.freeact").write_text("mine")
    aside = rename_freeact_database(incumbent)
    assert aside == incumbent.with_name("search.db.freeact-2")
    assert incumbent.with_name("search.db.freeact").read_text() == "mine"
    assert names_in(aside) == ["a", "b"]


def test_the_file_behind_a_link_is_renamed_in_its_own_folder(incumbent, tmp_path):
    link = tmp_path / "link.db"
    try:
        link.symlink_to(incumbent)
    except OSError:
        pytest.skip("this system cannot create links")
    assert rename_freeact_database(link) == incumbent.with_name("search.db.freeact")


def changed(connection, *statements):
    initialize(connection)
    for statement in statements:
        connection.execute(statement)


OTHERS = {
    "a table more": lambda c: changed(c, "CREATE TABLE mine (x)"),
    "a version": lambda c: changed(c, "PRAGMA user_version = 1"),
    "a mark": lambda c: changed(c, "PRAGMA application_id = 7"),
    "words only": lambda c: c.execute(WORDS),
}


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
def test_any_other_database_is_unchanged(database, make):
    with connected(database) as connection:
        make(connection)
    before = database.read_bytes(), files_in(database.parent)
    assert rename_freeact_database(database) is None
    assert (database.read_bytes(), files_in(database.parent)) == before


def test_the_log_of_any_other_database_is_unchanged(database):
    with connected(database) as connection:
        changed(connection, "CREATE TABLE mine (x)")
    write_and_die(database, "a")
    log = database.with_name("search.db-wal")
    before = database.read_bytes(), log.read_bytes()
    assert rename_freeact_database(database) is None
    assert (database.read_bytes(), log.read_bytes()) == before


def test_a_file_that_is_not_a_database_is_unchanged(database):
    assert rename_freeact_database(database) is None
    assert list(database.parent.iterdir()) == []
    for content in (b"", b"SQLite format 3\0", b"SQLite format 3\0" + b"x" * 99, b"text"):
        database.write_bytes(content)
        assert rename_freeact_database(database) is None
        assert database.read_bytes() == content
    assert rename_freeact_database(database.parent) is None
    assert rename_freeact_database(database / "below" / "a file") is None
    assert rename_freeact_database(database.with_name("a\0b")) is None


def test_our_own_index_is_unchanged(database):
    with ToolIndex(database) as index:
        index.refuse("m", {"hash": "none"})
        assert rename_freeact_database(database) is None
        assert "search.db.freeact" not in files_in(database.parent)
    assert rename_freeact_database(database) is None


VISIT = """
import sqlite3, sys
from contextlib import closing
with closing(sqlite3.connect(sys.argv[1])) as connection:
    connection.execute("SELECT count(*) FROM entries").fetchone()
"""


def test_the_check_keeps_the_locks_of_our_own_index(database, tmp_path):
    """Otherwise, the next user to close the database would believe that it was the last one."""
    pytest.importorskip("fcntl", reason="on Windows a lock belongs to the file handle")
    log = database.with_name("search.db-wal")
    with closing(open_store(Roots.of(tmp_path), Settings(db_path=database))) as store:
        store.refuse("m", {"hash": "none"})
        before = log.stat().st_ino
        assert rename_freeact_database(database) is None
        with closing(open_store(Roots.of(tmp_path), Settings(db_path=database))):
            assert run(VISIT, database) == 0
        assert run(VISIT, database) == 0
        assert log.stat().st_ino == before


def test_two_searches_of_one_tree_in_one_process_keep_their_log(settings, root):
    pytest.importorskip("fcntl", reason="on Windows a lock belongs to the file handle")
    database = settings().db_path

    async def main():
        async with ToolSearch(root, settings(), refresh=False) as one:
            await one.index.update(vectors=False)
            before = database.with_name(f"{database.name}-wal").stat().st_ino
            async with ToolSearch(root, settings(), refresh=False) as other:
                await asyncio.gather(*(other.search(f"report bug {n}") for n in range(10)))
            assert run(VISIT, database) == 0
            assert database.with_name(f"{database.name}-wal").stat().st_ino == before
            assert await one.record_outcome("mcptools:github:create_issue", success=True)
        with closing(sqlite3.connect(ToolIndex.files(database).durable)) as connection:
            return connection.execute("SELECT count(*) FROM outcomes").fetchone()

    assert asyncio.run(main()) == (1,)
