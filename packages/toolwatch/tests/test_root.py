"""The watched folder itself: absent, removed, replaced, reached by a link, or not a folder."""

import asyncio
import os
import shutil
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest
from toolwatch import ToolWatchError, awatch_tools

from .conftest import PATIENCE

pytestmark = pytest.mark.anyio


async def test_a_missing_root_is_watched_once_it_is_created(tmp_path, mirroring):
    root = tmp_path / "generated"

    async with mirroring(root) as mirror:
        assert [batch.rescan for batch in mirror.batches] == [True]
        root.mkdir()
        (root / "first.py").write_text("x")
        await mirror.has("first.py")
        (root / "second.py").write_text("x")
        await mirror.has("second.py")


async def test_the_parent_folders_of_a_missing_root_may_be_missing_too(tmp_path, mirroring):
    root = tmp_path / "project" / ".freeact" / "generated"

    async with mirroring(root) as mirror:
        root.parent.parent.mkdir()
        root.mkdir(parents=True)
        (root / "tool.py").write_text("x")
        await mirror.has("tool.py")


async def test_changes_next_to_a_missing_root_cause_no_batch(tmp_path, mirroring):
    root = tmp_path / "generated"

    async with mirroring(root) as mirror, mirroring(tmp_path) as witness:
        for number in range(5):
            (tmp_path / f"sibling_{number}.txt").write_text("x")
            await witness.has(f"sibling_{number}.txt")
        assert [batch.rescan for batch in mirror.batches] == [True]
        root.mkdir()
        (root / "tool.py").write_text("x")
        await mirror.has("tool.py")


async def test_a_root_that_is_removed_has_no_files_until_it_comes_back(root, mirroring):
    (root / "tool.py").write_text("x")

    async with mirroring(root) as mirror:
        shutil.rmtree(root)
        await mirror.equals_disk()
        assert mirror.files == {}
        root.mkdir()
        (root / "again.py").write_text("x")
        await mirror.has("again.py")


async def test_a_root_removed_and_recreated_at_once_is_still_watched(root, mirroring):
    """Many file systems give the new folder the old one's inode number."""
    async with mirroring(root) as mirror:
        for turn in range(3):
            shutil.rmtree(root)
            root.mkdir()
            (root / f"at_once_{turn}.py").write_text("x")
            await mirror.has(f"at_once_{turn}.py")
            (root / f"later_{turn}.py").write_text("x")
            await mirror.has(f"later_{turn}.py")


async def test_a_root_moved_away_and_replaced_is_followed_by_name(root, mirroring, tmp_path):
    (root / "old.py").write_text("x")

    async with mirroring(root) as mirror:
        root.rename(tmp_path / "elsewhere")
        root.mkdir()
        (root / "new.py").write_text("x")
        await mirror.equals_disk()
        await mirror.has("new.py")
        (tmp_path / "elsewhere" / "unseen.py").write_text("x")
        (root / "seen.py").write_text("x")
        await mirror.has("seen.py")
        assert not any(path.name == "unseen.py" for path in mirror.mentioned())


async def test_a_folder_above_the_root_may_be_moved_and_moved_back(tmp_path, mirroring):
    root = tmp_path / "project" / "generated"
    root.mkdir(parents=True)
    (root / "tool.py").write_text("x")

    async with mirroring(root) as mirror:
        await mirror.has("tool.py")
        root.parent.rename(tmp_path / "parked")
        await mirror.sees(absence=lambda: mirror.files == {})
        (tmp_path / "parked").rename(root.parent)
        await mirror.has("tool.py")


async def test_a_relative_root_is_watched_where_it_was_when_the_watch_began(
    root, mirroring, tmp_path, monkeypatch
):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(root.parent)

    async with mirroring(root.name) as mirror:
        mirror.root = root
        os.chdir(tmp_path / "other")
        (root / "tool.py").write_text("x")
        await mirror.has("tool.py")


async def test_a_root_that_is_a_symbolic_link_is_watched_at_its_target(root, mirroring, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(root, target_is_directory=True)

    async with mirroring(link) as mirror:
        (root / "tool.py").write_text("x")
        await mirror.has("tool.py")


async def test_a_symbolic_link_whose_target_changes_is_followed(root, mirroring, tmp_path):
    link, other = tmp_path / "link", tmp_path / "other"
    link.symlink_to(root, target_is_directory=True)
    other.mkdir()
    (other / "other.py").write_text("x")

    async with mirroring(link) as mirror:
        (tmp_path / "new_link").symlink_to(other, target_is_directory=True)
        (tmp_path / "new_link").replace(link)
        await mirror.has("other.py")
        (other / "later.py").write_text("x")
        await mirror.has("later.py")


@pytest.mark.skipif(sys.platform != "linux", reason="needs a path that exists but does not resolve")
async def test_a_root_that_vanishes_during_setup_is_watched_once_it_is_back(
    root, mirroring, tmp_path, monkeypatch
):
    """`/proc/self/cwd` of a removed folder exists, yet the folder it names does not."""
    doomed = tmp_path / "doomed"
    doomed.mkdir()
    monkeypatch.chdir(doomed)
    doomed.rmdir()

    async with mirroring("/proc/self/cwd") as mirror:
        os.chdir(root)
        (root / "tool.py").write_text("x")
        await mirror.has("tool.py")


async def test_a_root_that_is_a_file_is_refused(tmp_path):
    file = tmp_path / "file.txt"
    file.write_text("x")

    with pytest.raises(ToolWatchError, match="watch the folder that contains it") as caught:
        await anext(awatch_tools(file))
    assert caught.value.root == file
    assert isinstance(caught.value, ToolWatchError)


def test_a_root_that_comes_back_as_a_file_is_refused(root, mirroring):
    async def scenario():
        async with mirroring(root) as mirror:
            root.rmdir()
            root.write_text("x")
            await mirror.sees(refusal=lambda: False)

    with pytest.raises(ToolWatchError, match="is not a folder"):
        asyncio.run(scenario())


@pytest.mark.parametrize("present", [True, False], ids=["present", "absent"])
def test_cancelling_ends_the_watch_and_leaves_no_task_and_no_thread(root, present):
    if not present:
        root.rmdir()
    threads_before = set(threading.enumerate())

    async def scenario():
        async def follow():
            async for batch in awatch_tools(root):
                batches.append(batch)  # noqa: PERF401 - one by one, without end

        batches = []
        task = asyncio.create_task(follow())
        async with asyncio.timeout(PATIENCE):
            while not batches:
                await asyncio.sleep(0.005)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())
    deadline = time.monotonic() + PATIENCE
    while (left := set(threading.enumerate()) - threads_before) and time.monotonic() < deadline:
        for thread in left:
            thread.join(0.1)
    assert not left


OUTLIVING = """
import asyncio, sys, threading
from anyio.to_thread import run_sync
from toolwatch import awatch_tools
occupied, closed = threading.Event(), threading.Event()
def occupy():
    occupied.set()
    closed.wait()
async def scenario():
    batches = awatch_tools(sys.argv[1])
    await anext(batches)
    # This takes the thread that waited for the batch, so none is left to close the watch.
    other = asyncio.create_task(run_sync(occupy))
    while threading.main_thread().is_alive():
        await asyncio.sleep(0)
    try:
        await batches.aclose()
    finally:
        closed.set()
        await other
threading.Thread(target=asyncio.run, args=[scenario()]).start()
occupied.wait()
"""


def test_a_watch_can_be_closed_when_the_main_thread_has_ended(root):
    command = [sys.executable, "-W", "error", "-c", OUTLIVING, str(root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stderr == ""


async def test_leaving_the_loop_and_closing_the_iterator_ends_the_watch(root):
    batches = awatch_tools(root)
    async for _ in batches:
        break
    await asyncio.wait_for(batches.aclose(), PATIENCE)
    with suppress(StopAsyncIteration):
        await anext(batches)
        pytest.fail("a closed watch yielded another batch")
