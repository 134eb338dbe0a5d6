"""Opening a file: creating an index, refusing other files unchanged, and reading only."""

import hashlib
import os
import shutil
from contextlib import closing

import apsw
import pytest
from toolindex import (
    DatabaseError,
    ForeignDatabaseError,
    NewerSchemaError,
    ToolIndex,
    ToolIndexError,
)
from toolindex._files import INDEX

ONE = {"mcptools:mail:send": "Send a message."}


def snapshot(folder):
    """Return the hash of every file in a folder by name, including those that SQLite adds."""
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.iterdir()
        if file.is_file()
    }


@pytest.fixture
def refuses(tmp_path):
    """Check that opening a path to write or to read raises an error and changes nothing."""

    def check(path, error, match, *, ignored=()):
        before = snapshot(tmp_path)
        for read_only in (False, True):
            with pytest.raises(error, match=match) as caught:
                ToolIndex(path, read_only=read_only)
            assert caught.value.where == path
            assert isinstance(caught.value, ToolIndexError)
            after = {
                name: hash_ for name, hash_ in snapshot(tmp_path).items() if name not in ignored
            }
            assert after == before

    return check


def foreign(path, *, journal_mode):
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(f"PRAGMA journal_mode = {journal_mode}")
        connection.execute("CREATE TABLE bookmarks (url)")
        connection.execute("INSERT INTO bookmarks VALUES ('https://example.org')")


def test_a_new_index_is_created_with_its_parent_folders(tmp_path):
    path = tmp_path / "not" / "yet" / "search.db"
    ToolIndex(path).close()
    assert path.is_file()


@pytest.mark.parametrize("name", ["größe 工具 🛠.db", "a?b#c%20d&e.db", ":memory:", "file:x.db"])
def test_any_file_name_works(tmp_path, fill, contents, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with ToolIndex(name) as index:
        fill(index, ONE)
    assert (tmp_path / name).is_file()
    with ToolIndex(name, read_only=True) as index:
        assert contents(index) == ONE


def test_an_empty_file_becomes_an_index(path, fill, contents):
    path.touch()
    with ToolIndex(path) as index:
        fill(index, ONE)
        assert contents(index) == ONE


def test_a_closed_index_consists_of_two_files_without_locks(path, fill):
    with ToolIndex(path) as index, index.lease("files").held(timeout=0):
        fill(index, ONE)
    assert {file.name for file in path.parent.iterdir()} == {"search.db", "search.db-kept"}


@pytest.mark.parametrize("journal_mode", ["delete", "wal"])
def test_the_database_of_another_program_is_refused(path, refuses, journal_mode):
    foreign(path, journal_mode=journal_mode)
    refuses(
        path, ForeignDatabaseError, "not a tool index", ignored=("search.db-wal", "search.db-shm")
    )
    with pytest.raises(ForeignDatabaseError):
        ToolIndex(path)
    assert [file.name for file in path.parent.iterdir()] == ["search.db"]


def test_the_database_of_a_killed_program_is_refused_and_keeps_its_log(tmp_path, refuses):
    """Only the program that owns a database may move the log into it."""
    original, path = tmp_path / "original.db", tmp_path / "killed.db"
    with closing(apsw.Connection(str(original))) as connection:
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("CREATE TABLE bookmarks (url)")
        for suffix in ("", "-wal"):
            shutil.copy(f"{original}{suffix}", f"{path}{suffix}")
    refuses(path, ForeignDatabaseError, "not a tool index", ignored=("killed.db-shm",))


@pytest.mark.parametrize(
    "content",
    [
        b"x",
        b"\0",
        b"not a database",
        b"\0" * 4096,
        b"\n" * 100,
        b"SQLite format 3\0",
        b"SQLite format 3\0" * 999,
        os.urandom(65536),
    ],
    ids=["one byte", "one zero", "text", "zeros", "newlines", "magic", "only magic", "random"],
)
def test_a_file_that_is_not_a_database_is_refused(path, refuses, content):
    path.write_bytes(content)
    refuses(path, ForeignDatabaseError, "not a tool index")


@pytest.mark.parametrize("journal_mode", ["delete", "wal"])
def test_an_index_of_a_later_version_is_refused(path, refuses, fill, journal_mode):
    with ToolIndex(path) as index:
        fill(index, ONE)
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(f"PRAGMA user_version = {INDEX.version + 1}")
        connection.execute(f"PRAGMA journal_mode = {journal_mode}")
    refuses(
        path, NewerSchemaError, "upgrade, or choose", ignored=("search.db-wal", "search.db-shm")
    )
    with pytest.raises(NewerSchemaError) as caught:
        ToolIndex(path)
    assert (caught.value.found, caught.value.supported) == (INDEX.version + 1, INDEX.version)


def test_an_open_index_is_not_written_after_a_later_version_has_migrated_it(path, fill):
    with ToolIndex(path) as index, closing(apsw.Connection(str(path))) as later:
        fill(index, ONE)
        later.execute(f"PRAGMA user_version = {INDEX.version + 1}")
        with pytest.raises(NewerSchemaError, match="upgrade, or choose"):
            fill(index, {})
        assert later.execute("SELECT count(*) FROM entries").get == 1


def test_opening_read_only_requires_an_existing_index(path, tmp_path):
    with pytest.raises(DatabaseError, match="cannot be opened"):
        ToolIndex(path, read_only=True)
    assert list(tmp_path.iterdir()) == []
    path.touch()
    with pytest.raises(DatabaseError, match="does not contain an index yet"):
        ToolIndex(path, read_only=True)
    assert path.stat().st_size == 0


def test_opening_read_only_changes_nothing(path, fill, contents, report):
    with ToolIndex(path) as index:
        fill(index, ONE, model_id="m")
    before = path.read_bytes()
    with ToolIndex(path, read_only=True) as index:
        assert index.read_only
        assert contents(index) == ONE
        assert index.pending("m", limit=5) == {}
        for change in (
            lambda: index.sync(report({}), reader_version="1"),
            lambda: index.put_vectors("m", {"x": [1.0, 2.0, 3.0, 4.0]}),
        ):
            with pytest.raises(DatabaseError, match="read-only"):
                change()
    assert path.read_bytes() == before


def test_an_index_can_be_read_where_nothing_can_be_written(path, fill, contents, read_only_view):
    with ToolIndex(path) as index:
        fill(index, ONE, model_id="m")
    with (
        read_only_view(path.parent) as folder,
        ToolIndex(folder / path.name, read_only=True) as index,
    ):
        assert contents(index) == ONE
        with index.reading() as reader:
            assert reader.coverage("m").vectors == 1


def test_an_index_cannot_be_opened_for_writing_where_nothing_can_be_written(
    path, fill, read_only_view
):
    with ToolIndex(path) as index:
        fill(index, ONE)
    with read_only_view(path.parent) as folder, pytest.raises(DatabaseError, match="permissions"):
        ToolIndex(folder / path.name)


def test_an_index_on_a_read_only_medium_is_reported_as_read_only(
    path, fill, read_only_view, contents
):
    with ToolIndex(path) as writer:
        fill(writer, ONE)
        # While the writer has it open, the files beside it exist, and only writing fails.
        with (
            read_only_view(path.parent) as folder,
            ToolIndex(folder / path.name) as index,
        ):
            assert contents(index) == ONE
            with pytest.raises(DatabaseError, match="cannot be written"):
                fill(index, {})


def test_changes_that_a_killed_process_committed_are_always_read(
    path, tmp_path, fill, contents, read_only_view
):
    """They are in the log beside the index, and reading without it would return an old state."""
    copies = tmp_path / "copies"
    copies.mkdir()
    with ToolIndex(path) as index:
        fill(index, ONE)
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", copies / f"{path.name}{suffix}")
    with (
        read_only_view(copies) as folder,
        pytest.raises(DatabaseError, match="open the index once"),
    ):
        ToolIndex(folder / path.name, read_only=True)
    with ToolIndex(copies / path.name, read_only=True) as index:
        assert contents(index) == ONE


def test_a_relative_path_keeps_its_meaning_when_the_working_directory_changes(
    tmp_path, fill, contents, monkeypatch
):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with ToolIndex("search.db") as index:
        fill(index, ONE)
        monkeypatch.chdir(tmp_path / "elsewhere")
        # The second connection is opened while the first is in use.
        with index.reading():
            assert contents(index) == ONE
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions do not apply on this system")
def test_reading_where_nothing_can_be_written_sees_what_others_write(
    path, fill, contents, read_only_view
):
    """Other processes may have the permission to write."""
    with ToolIndex(path) as index:
        fill(index, ONE)
    with (
        read_only_view(path.parent) as folder,
        ToolIndex(folder / path.name, read_only=True) as reader,
    ):
        assert contents(reader) == ONE
        if folder == path.parent:
            pytest.skip("this user cannot write there either")
        with ToolIndex(path) as index:
            fill(index, {})
        assert contents(reader) == {}


def test_a_read_only_index_can_switch_to_writing_without_reopening(path, fill, contents):
    with ToolIndex(path) as index:
        fill(index, ONE)
        assert index.try_writing()
    with ToolIndex(path, read_only=True) as index:
        assert index.read_only
        assert index.try_writing()
        assert not index.read_only
        fill(index, {})
        assert contents(index) == {}


def test_a_failed_attempt_to_write_leaves_the_index_readable(path, fill, contents, read_only_view):
    with ToolIndex(path) as index:
        fill(index, ONE)
    with (
        read_only_view(path.parent) as folder,
        ToolIndex(folder / path.name, read_only=True) as index,
    ):
        assert not index.try_writing()
        assert contents(index) == ONE


@pytest.mark.parametrize("name", ["lone \udcff byte.db", "nul \0 byte.db"])
def test_a_path_that_sqlite_cannot_open_is_a_database_error(tmp_path, name):
    with pytest.raises(DatabaseError):
        ToolIndex(tmp_path / name)
