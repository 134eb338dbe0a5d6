"""Files that are damaged, removed or replaced, even while the index is open."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from toolindex import (
    DamagedDatabaseError,
    DatabaseBusyError,
    DatabaseError,
    ForeignDatabaseError,
    Lease,
    OutcomeRecord,
    ToolIndex,
    _connection,
    _opening,
)

ONE = {"mcptools:mail:send": "Send a message."}
MANY = {f"mcptools:a:t{n}": f"Tool {n}. " + "x" * 500 for n in range(300)}
PAGE = 16384


def overwrite(path, first_page, last_page):
    """Overwrite pages of a closed database; the first page is 1."""
    with path.open("r+b") as file:
        file.seek((first_page - 1) * PAGE)
        file.write(b"\xff" * PAGE * (last_page - first_page + 1))


def root_page(path, table):
    with closing(apsw.Connection(str(path))) as connection:
        return connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).get


def set_aside_files(path):
    files = [file for file in path.parent.iterdir() if ".corrupt-" in file.name]
    return [file for file in files if not file.name.endswith(("-wal", "-shm"))]


def test_a_truncated_index_is_set_aside_when_it_is_opened(path, fill, contents):
    with ToolIndex(path) as index:
        fill(index, MANY, model_id="m")
    os.truncate(path, PAGE)
    with ToolIndex(path) as index:
        fill(index, ONE)
        assert contents(index) == ONE
    assert len(set_aside_files(path)) == 1


def test_a_damaged_read_only_index_is_left_unchanged(path, fill):
    with ToolIndex(path) as index:
        fill(index, ONE)
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("DROP TABLE entries")
    with pytest.raises(DamagedDatabaseError):
        ToolIndex(path, read_only=True)
    assert set_aside_files(path) == []


@pytest.mark.parametrize("damage", ["header", "first page", "text", "nothing", "table"])
def test_a_read_only_index_works_without_a_damaged_file_beside_it(
    path, durable, fill, contents, read_only_view, damage
):
    with ToolIndex(path) as index:
        fill(index, ONE, model_id="m")
        index.usage.record_outcomes([OutcomeRecord(at=2.0, tool_id="x", success=True)])
    match damage:
        case "header":
            durable.write_bytes(b"\0" * 100 + durable.read_bytes()[100:])
        case "first page":
            overwrite(durable, 1, 1)
        case "text":
            durable.write_text("not a database" * 9)
        case "nothing":
            durable.write_bytes(b"x")
        case "table":
            overwrite(durable, root_page(durable, "outcomes"), root_page(durable, "outcomes"))
    damaged = durable.read_bytes()
    with (
        read_only_view(path.parent) as folder,
        ToolIndex(folder / path.name, read_only=True) as index,
    ):
        if damage == "table":
            assert index.durable_problem == ""
            with pytest.raises(DamagedDatabaseError) as caught:
                index.usage.statistics()
            assert caught.value.path == folder / durable.name
            assert index.quarantine() is None
        assert index.usage.statistics().tools == ()
        assert contents(index) == ONE
        with index.reading() as reader:
            assert reader.coverage("m").vectors == 1
        assert durable.name in index.durable_problem
        assert "damaged" in index.durable_problem
    assert durable.read_bytes() == damaged
    with ToolIndex(path) as index:
        assert index.durable_problem == ""


def test_damage_to_the_index_itself_is_an_error_when_reading_only(path, fill, contents):
    with ToolIndex(path) as index:
        fill(index, MANY)
    overwrite(path, root_page(path, "entries"), root_page(path, "entries"))
    with ToolIndex(path, read_only=True) as index:
        with pytest.raises(DamagedDatabaseError, match="damaged; open it where"):
            contents(index)
        with pytest.raises(DamagedDatabaseError):
            index.quarantine()
        with pytest.raises(DamagedDatabaseError):
            contents(index)


@pytest.mark.parametrize("suffix", ["", "-kept"])
def test_an_error_names_the_file_that_is_damaged(path, fill, contents, suffix):
    with ToolIndex(path) as index:
        fill(index, MANY, model_id="m")
    file, table = Path(f"{path}{suffix}"), "embeddings" if suffix else "entries"
    overwrite(file, root_page(file, table), root_page(file, table))
    with ToolIndex(path) as index:

        def look_at_table():
            index.put_vectors("m", {"new": [1.0, 2.0, 3.0, 4.0]}) if suffix else contents(index)

        for look in (look_at_table, index.check):
            with pytest.raises(DamagedDatabaseError) as caught:
                look()
            assert caught.value.path == file
        assert index.quarantine().name.startswith(f"{file.name}.corrupt-")


def test_vectors_of_a_damaged_index_are_recovered(path, fill, contents, check_sound):
    """Embedding them again may cost money."""
    with ToolIndex(path) as index:
        fill(index, MANY, model_id="m")
    overwrite(path, root_page(path, "entries"), root_page(path, "entries"))
    with ToolIndex(path) as index:
        with pytest.raises(DamagedDatabaseError):
            contents(index)
        index.quarantine()
        fill(index, MANY)
        assert index.pending("m", limit=1) == {}
        assert index.use_model("m")
        with index.reading() as reader:
            assert reader.coverage("m").vectors == len(MANY)
    check_sound(path)


def break_tables(path):
    """Break both files."""
    with closing(apsw.Connection(f"{path}-kept")) as connection:
        connection.execute("DROP TABLE outcomes")
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("DROP TABLE entries")


def test_databases_set_aside_within_a_second_are_all_kept(path):
    for _ in range(3):
        ToolIndex(path).close()
        break_tables(path)
    ToolIndex(path).close()
    assert len(set_aside_files(path)) == 2 * 3


def test_threads_that_find_the_same_damage_set_the_index_aside_once(path, fill):
    with ToolIndex(path) as index:
        fill(index, MANY, model_id="m")
    overwrite(path, root_page(path, "entries"), root_page(path, "entries"))
    with ToolIndex(path) as index:

        def search(_):
            try:
                with index.reading() as reader:
                    list(reader.connection.execute("SELECT description FROM entries"))
            except DamagedDatabaseError:
                index.quarantine()

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(search, range(40)))
        fill(index, MANY)
        assert index.pending("m", limit=1) == {}
    assert len(set_aside_files(path)) == 1


def test_a_sound_file_is_never_set_aside(index, path, fill, contents):
    fill(index, ONE)
    assert index.quarantine() is None
    assert contents(index) == ONE
    assert set_aside_files(path) == []


def test_a_damaged_index_that_cannot_be_renamed_is_reported(path, fill, start):
    """On some systems, a file that another process has open cannot be renamed."""
    with ToolIndex(path) as index:
        fill(index, ONE)
    break_tables(path)
    program = """
import sys
from toolindex import DatabaseError, ToolIndex
def refuse(event, arguments):
    if event == "os.rename":
        raise PermissionError("in use")
sys.addaudithook(refuse)
try:
    ToolIndex(sys.argv[1])
except DatabaseError as error:
    print(error)
"""
    out, err = start(program, path).communicate(timeout=60)
    assert "cannot be renamed (in use)" in out, err


def test_two_processes_set_a_damaged_index_aside_once(path, fill, contents):
    with ToolIndex(path) as index:
        fill(index, MANY)
    overwrite(path, root_page(path, "entries"), root_page(path, "entries"))
    with ToolIndex(path) as one, ToolIndex(path) as other:
        for index in (one, other):
            with pytest.raises(DamagedDatabaseError):
                contents(index)
        assert one.quarantine() is not None
        fill(one, ONE)
        assert other.quarantine() is None
        assert contents(other) == ONE
    assert len(set_aside_files(path)) == 1


@pytest.mark.parametrize("suffix", ["", "-kept"])
def test_a_file_that_another_process_renames_is_not_created_before_its_turn(
    path, fill, contents, monkeypatch, suffix
):
    """The other process still has to rename the log, and would take that of a new file."""
    with ToolIndex(path) as index:
        fill(index, ONE)
    file = path.with_name(f"{path.name}{suffix}")
    refuse = _opening.refuse_other_formats

    def renamed_meanwhile(index, part):
        refuse(index, part)
        if part.suffix == suffix and file.exists():
            file.rename(f"{file}.corrupt-20261122T101500")

    with monkeypatch.context() as patch:
        patch.setattr(_opening, "refuse_other_formats", renamed_meanwhile)
        patch.setattr(_connection, "_RECOVERY_SECONDS", 0.05)
        with Lease(path, "rescue").held(timeout=0), pytest.raises(DatabaseBusyError):
            ToolIndex(path)
    assert not file.exists()
    with ToolIndex(path) as index:
        fill(index, ONE)
        assert contents(index) == ONE


def test_a_new_index_whose_other_file_is_removed_gets_a_new_one(path, durable, fill, contents):
    """Its mark may still be in its log."""
    with ToolIndex(path) as index:
        fill(index, ONE)
        assert ToolIndex.application_id(path) == 0
        durable.unlink()
        assert contents(index) == ONE
        assert durable.exists()


def test_a_file_that_is_removed_while_the_index_is_open_is_recreated(path, fill, contents):
    with ToolIndex(path) as index:
        index.bind(str(path.parent))
        fill(index, ONE)
        with index.reading() as reader:
            before = reader.generation()
        for file in path.parent.iterdir():
            file.unlink()
        assert contents(index) == {}
        with index.reading() as reader:
            assert reader.generation() != before
            assert not reader.is_complete()
        assert index.stored(reader_version="1").is_complete is False
        fill(index, ONE)
        assert contents(index) == ONE
        with index.reading() as reader:
            assert reader.is_complete()
    with ToolIndex(path) as index:
        assert contents(index) == ONE
        with pytest.raises(ForeignDatabaseError):
            index.bind("another")


def test_a_read_that_began_before_the_file_was_removed_completes(path, fill, contents):
    with ToolIndex(path) as index:
        fill(index, ONE)
        with index.reading() as reader:
            path.unlink()
            assert list(reader.entries(list(ONE))) == list(ONE)
            assert contents(index) == {}
        assert contents(index) == {}


def test_after_the_file_is_replaced_the_new_index_is_read(path, tmp_path, fill, contents):
    other = tmp_path / "other.db"
    with ToolIndex(other) as index:
        fill(index, MANY)
    with ToolIndex(path) as index:
        fill(index, ONE)
        assert contents(index) == ONE
        other.replace(path)
        assert contents(index) == MANY


def test_an_index_of_another_tree_that_replaced_the_file_is_not_written(
    path, tmp_path, fill, report
):
    tree, other_tree = tmp_path / "tree", tmp_path / "other_tree"
    tree.mkdir()
    other_tree.mkdir()
    other = tmp_path / "other.db"
    with ToolIndex(other) as index:
        index.bind(str(other_tree))
    with ToolIndex(path) as index:
        index.bind(str(tree))
        fill(index, ONE)
        other.replace(path)
        with pytest.raises(ForeignDatabaseError):
            index.sync(report(ONE), reader_version="1")


def test_garbage_that_replaced_an_index_is_renamed(path, fill, contents):
    with ToolIndex(path) as index:
        fill(index, ONE)
        garbage = path.with_name("garbage")
        garbage.write_bytes(b"not a database" * 999)
        garbage.replace(path)
        with pytest.raises(DamagedDatabaseError):
            contents(index)
        aside = index.quarantine()
        assert aside.read_bytes() == b"not a database" * 999
        fill(index, ONE)
        assert contents(index) == ONE


def test_truncating_an_open_index_does_not_crash_the_process(path, start, tmp_path, fill):
    """The file is mapped into memory, where reading beyond its end is fatal."""
    with ToolIndex(path) as index:
        fill(index, MANY, model_id="m")
    program = """
import os, sys
from toolindex import ToolIndex
with ToolIndex(sys.argv[1]) as index:
    def count():
        with index.reading() as reader:
            return reader.connection.execute("SELECT sum(length(description)) FROM entries").get
    assert count() > 0
    os.truncate(sys.argv[1], 0)
    print(count())
"""
    out, err = start(program, path).communicate(timeout=60)
    assert (out, err) == ("None\n", "")


def test_a_missing_folder_is_an_error_until_it_is_restored(tmp_path, fill, contents):
    folder = tmp_path / "cache"
    with ToolIndex(folder / "search.db") as index:
        fill(index, ONE)
        shutil.rmtree(folder)
        folder.write_text("in the way")
        with pytest.raises(DatabaseError):
            contents(index)
        folder.unlink()
        fill(index, ONE)
        assert contents(index) == ONE


def test_an_index_that_is_never_closed_causes_a_warning(path):
    indexes = [ToolIndex(path)]
    with pytest.warns(ResourceWarning, match="never closed"):
        indexes.clear()


def test_the_log_beside_the_database_stays_bounded(path, fill):
    with ToolIndex(path) as index:
        for turn in range(4):
            fill(index, {id_: f"{turn} {text}" * 40 for id_, text in MANY.items()})
        for _ in range(3):
            fill(index, ONE)
        assert path.with_name("search.db-wal").stat().st_size <= 33 << 20
