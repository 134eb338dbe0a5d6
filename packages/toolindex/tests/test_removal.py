"""Removing an index: with all files beside it, and never while it is in use."""

from contextlib import closing

import apsw
import pytest
from toolindex import DatabaseError, OutcomeRecord, ToolIndex

TOOL = {"mcptools:mail:send": "Send a message."}
OUTCOME = OutcomeRecord(at=1.0, tool_id="mcptools:mail:send", success=True)


def test_removing_an_index_removes_all_its_files(path, fill):
    with ToolIndex(path) as index:
        fill(index, TOOL, model_id="m")
        index.usage.record_outcomes([OUTCOME])
    # As left by a killed process.
    path.with_name("search.db-files.lock").touch()
    for damaged in ("search.db", "search.db-kept"):
        path.with_name(f"{damaged}.corrupt-20261122T101500").touch()

    assert ToolIndex.remove(path)
    assert list(path.parent.iterdir()) == []


def test_an_open_index_is_not_removed(index, path, fill):
    fill(index, TOOL)
    with index.reading():
        assert not ToolIndex.remove(path)
    with index.lease("rescue").held(timeout=0):
        assert not ToolIndex.remove(path)
    assert path.exists()


@pytest.mark.parametrize("content", ["tools", "vectors", "outcomes"])
def test_an_index_with_content_is_not_removed_if_only_empty_ones_should_be(path, fill, content):
    with ToolIndex(path) as index:
        if content == "outcomes":
            index.usage.record_outcomes([OUTCOME])
        else:
            fill(index, TOOL, model_id="m" if content == "vectors" else None)
        if content == "vectors":
            fill(index, {})

    assert not ToolIndex.remove(path, only_empty=True)
    assert path.exists()


def test_removing_only_empty_indexes_keeps_damaged_files(path):
    ToolIndex(path).close()
    aside = path.with_name("search.db.corrupt-20261122T101500")
    aside.touch()

    assert ToolIndex.remove(path, only_empty=True)
    assert aside.exists()
    assert ToolIndex.remove(path)
    assert not aside.exists()


def test_a_file_of_another_program_is_left_alone(path):
    with closing(apsw.Connection(str(path))) as other:
        other.execute("CREATE TABLE theirs (x)")

    assert not ToolIndex.remove(path)
    assert path.exists()


def test_removing_a_damaged_index_is_an_error(path, fill):
    with ToolIndex(path) as index:
        fill(index, TOOL)
    data = path.read_bytes()
    path.write_bytes(data[:100] + b"\xff" * (len(data) - 100))

    with pytest.raises(DatabaseError):
        ToolIndex.remove(path)
    assert path.exists()
