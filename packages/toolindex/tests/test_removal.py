"""Removing an index: with all that lies beside it, and never one that somebody uses."""

from contextlib import closing

import apsw
import pytest
from toolindex import DatabaseError, OutcomeRecord, ToolIndex, remove_index

TOOL = {"mcptools:mail:send": "Send a message."}
OUTCOME = OutcomeRecord(at=1.0, tool_id="mcptools:mail:send", success=True)


def test_an_index_goes_with_all_its_files(path, fill):
    with ToolIndex(path) as index:
        fill(index, TOOL, model_id="m")
        index.usage.record_outcomes([OUTCOME])
    # As a killed process leaves it.
    path.with_name("search.db-files.lock").touch()
    for damaged in ("search.db", "search.db-kept"):
        path.with_name(f"{damaged}.corrupt-20261122T101500").touch()

    assert remove_index(path)
    assert list(path.parent.iterdir()) == []


def test_where_no_index_is_nothing_is_removed(path):
    assert not remove_index(path)


def test_an_index_that_is_open_stays(index, path, fill):
    fill(index, TOOL)
    with index.reading():
        assert not remove_index(path)
    with index.lease("rescue").held(timeout=0):
        assert not remove_index(path)
    assert path.exists()


@pytest.mark.parametrize("content", ["tools", "vectors", "outcomes"])
def test_only_an_index_that_holds_nothing_is_removed_where_that_is_asked(path, fill, content):
    with ToolIndex(path) as index:
        if content == "outcomes":
            index.usage.record_outcomes([OUTCOME])
        else:
            fill(index, TOOL, model_id="m" if content == "vectors" else None)
        if content == "vectors":
            fill(index, {})

    assert not remove_index(path, only_empty=True)
    assert path.exists()


def test_an_index_without_anything_is_removed_also_then(path):
    ToolIndex(path).close()

    assert remove_index(path, only_empty=True)


def test_a_damaged_copy_of_an_index_to_be_kept_stays(path):
    ToolIndex(path).close()
    aside = path.with_name("search.db.corrupt-20261122T101500")
    aside.touch()

    assert remove_index(path, only_empty=True)
    assert aside.exists()
    assert remove_index(path)
    assert not aside.exists()


def test_a_file_of_another_program_is_left_alone(path):
    with closing(apsw.Connection(str(path))) as other:
        other.execute("CREATE TABLE theirs (x)")

    assert not remove_index(path)
    assert path.exists()


def test_an_index_that_is_damaged_is_an_error(path, fill):
    with ToolIndex(path) as index:
        fill(index, TOOL)
    data = path.read_bytes()
    path.write_bytes(data[:100] + b"\xff" * (len(data) - 100))

    with pytest.raises(DatabaseError):
        remove_index(path)
    assert path.exists()
