"""Several roots in one watch have separate batches, and do not disturb each other."""

import logging
import shutil
from contextlib import closing
from pathlib import Path, PurePosixPath

import pytest
from toolwatch import ToolWatchError, awatch_tools, watch_tools

pytestmark = pytest.mark.anyio


@pytest.fixture
def other(tmp_path):
    folder = tmp_path / "other"
    folder.mkdir()
    return folder


def test_each_root_begins_with_a_rescan(root, other):
    with closing(watch_tools(root, other)) as batches:
        first = [next(batches), next(batches)]
    assert {batch.root for batch in first} == {root, other}
    assert all(batch.rescan for batch in first)


async def test_a_batch_names_its_root(root, other, mirroring):
    async with mirroring(root, other) as mirror:
        await mirror.sees(others=lambda: bool(mirror.others))
        (other / "there.py").write_text("x")
        await mirror.sees(
            there=lambda: any(PurePosixPath("there.py") in b.paths for b in mirror.others),
        )
        assert {batch.root for batch in mirror.others} == {other}
        (root / "here.py").write_text("x")
        await mirror.has("here.py")
        assert {batch.root for batch in mirror.batches} == {root}


async def test_a_missing_root_does_not_delay_another(root, tmp_path, mirroring):
    absent = tmp_path / "absent"

    async with mirroring(root, absent) as mirror:
        (root / "tool.py").write_text("x")
        await mirror.has("tool.py")
        absent.mkdir()
        (absent / "late.py").write_text("x")
        await mirror.sees(
            late=lambda: sum(batch.rescan for batch in mirror.others) > 1,
        )


async def test_a_root_that_is_removed_leaves_the_others_watched(root, other, mirroring):
    async with mirroring(root, other) as mirror:
        await mirror.sees(others=lambda: bool(mirror.others))
        shutil.rmtree(other)
        await mirror.sees(absence=lambda: len(mirror.others) > 1 and mirror.others[-1].rescan)
        (root / "tool.py").write_text("x")
        await mirror.has("tool.py")


async def test_a_root_within_another_is_reported_for_both(root, mirroring):
    inner = root / "inner"
    inner.mkdir()

    async with mirroring(root, inner) as mirror:
        await mirror.sees(others=lambda: bool(mirror.others))
        (inner / "tool.py").write_text("x")
        await mirror.has("inner/tool.py")
        await mirror.sees(
            inner=lambda: any(PurePosixPath("tool.py") in b.paths for b in mirror.others),
        )


def test_a_root_that_is_a_file_counts_as_missing_and_is_reported_once(root, other, caplog):
    other.rmdir()
    other.write_text("x")
    with (
        caplog.at_level(logging.WARNING, "toolwatch"),
        closing(watch_tools(root, other)) as batches,
    ):
        assert {next(batches).root, next(batches).root} == {root, other}
        (root / "tool.py").write_text("x")
        assert next(batches).paths == {PurePosixPath("tool.py")}
        (root / "later.py").write_text("x")
        assert next(batches).paths == {PurePosixPath("later.py")}
        other.unlink()
        other.mkdir()
        batch = next(batches)
        assert (batch.root, batch.rescan) == (other, True)
    (record,) = caplog.records
    assert record.getMessage() == f"{other} is not a folder; it is watched once it is one"


def test_roots_that_are_all_files_are_refused(tmp_path):
    files = [tmp_path / "one", tmp_path / "two"]
    for file in files:
        file.write_text("x")
    with (
        closing(watch_tools(files)) as batches,
        pytest.raises(ToolWatchError, match="is not a folder"),
    ):
        next(batches)


@pytest.mark.parametrize("watch", [watch_tools, awatch_tools])
@pytest.mark.parametrize("roots", [(), ([],)], ids=["none", "an empty list"])
def test_a_watch_without_roots_is_refused_at_once(watch, roots):
    with pytest.raises(ToolWatchError, match="at least one folder"):
        watch(*roots)


def test_roots_can_be_a_list_and_duplicates_count_once(root, other, monkeypatch):
    monkeypatch.chdir(root.parent)
    with closing(watch_tools([root, str(other)], Path(root.name))) as batches:
        assert {next(batches).root, next(batches).root} == {root, other}
        (other / "tool.py").write_text("x")
        assert next(batches).root == other
