"""Leases: held by one process at a time, and free as soon as it ends."""

import asyncio
import signal
import subprocess
import threading

import pytest
from toolindex import DatabaseBusyError, ToolIndex

from .conftest import PATIENCE

ROUNDS, WORKERS = 25, 8
HOLDER = """
import sys
from toolindex import ToolIndex
with ToolIndex(sys.argv[1]) as index, index.lease(sys.argv[2]).held(timeout=30):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(path, start):
    """Hold a lease in another process: `holder(purpose)`."""
    processes = []

    def hold(purpose):
        process = start(HOLDER, path, purpose, stdin=subprocess.PIPE)
        assert process.stdout.readline() == "held\n"
        processes.append(process)
        return process

    yield hold
    for process in processes:
        process.kill()
        process.communicate(timeout=PATIENCE)


def test_a_lease_is_held_by_one_process_at_a_time(index, holder):
    process = holder("files")
    lease = index.lease("files")
    assert not lease.acquire(timeout=0)
    with (
        pytest.raises(DatabaseBusyError, match="another process") as caught,
        lease.held(timeout=0.05),
    ):
        pass
    assert isinstance(caught.value, DatabaseBusyError)
    process.communicate("", timeout=PATIENCE)
    with lease.held(timeout=0):
        assert not index.lease("files").acquire(timeout=0)
    assert lease.acquire(timeout=0)
    lease.release()
    lease.release()


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_the_lock_file_of_a_killed_holder_is_removed_by_the_next_one(index, path, holder):
    process = holder("files")
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=PATIENCE)
    with index.lease("files").held(timeout=0):
        pass
    assert [file.name for file in path.parent.glob("*.lock")] == []


def test_removing_the_lock_file_never_lets_two_processes_hold_the_lease(index, tmp_path):
    """A waiting process may have opened the file that the holder removes."""
    counter = tmp_path / "counter"
    counter.write_text("0", encoding="utf-8")

    def count_up():
        for _ in range(ROUNDS):
            with index.lease("files").held(timeout=PATIENCE):
                before = int(counter.read_text(encoding="utf-8"))
                counter.write_text(str(before + 1), encoding="utf-8")

    threads = [threading.Thread(target=count_up) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert counter.read_text(encoding="utf-8") == str(ROUNDS * WORKERS)


def test_the_index_itself_can_be_used_by_all_while_a_lease_is_held(index, holder, fill, contents):
    holder("files")
    fill(index, {"mcptools:mail:send": "Send."})
    assert contents(index) == {"mcptools:mail:send": "Send."}


def test_everyone_gets_the_lease_where_files_cannot_be_locked(path, fill, read_only_view):
    with ToolIndex(path) as index:
        fill(index, {"mcptools:mail:send": "Send."})
    with (
        read_only_view(path.parent) as folder,
        ToolIndex(folder / path.name, read_only=True) as index,
        index.lease("files").held(timeout=0),
        index.lease("files").held(timeout=0),
    ):
        pass


def test_a_lease_that_was_acquired_without_a_lock_can_be_released(index, path):
    """The lock file cannot be created, because there is a folder at its path."""
    path.with_name("search.db-files.lock").mkdir()
    lease = index.lease("files")
    assert lease.acquire(timeout=0)
    lease.release()


@pytest.mark.parametrize("purpose", ["", "a/b", "..", "名前", "x" * 500, "\ud800"])
def test_any_string_is_a_purpose(index, purpose):
    with index.lease(purpose).held(timeout=0):
        assert not index.lease(purpose).acquire(timeout=0)


def test_the_lease_of_an_index_reached_by_a_link_is_the_same_lease(index, path, tmp_path):
    (tmp_path / "link.db").symlink_to(path)
    with ToolIndex(tmp_path / "link.db") as linked, linked.lease("files").held(timeout=0):
        assert not index.lease("files").acquire(timeout=0)


def test_a_turn_is_released_even_if_waiting_for_it_is_cancelled(index):
    async def work():
        first, second = index.lease("files"), index.lease("files")
        async with first.acquire_async(patience=0):
            waiting = asyncio.create_task(hold(second))
            done, _ = await asyncio.wait([waiting], timeout=0.1)
            assert not done
            waiting.cancel()
            await asyncio.wait([waiting])
            with pytest.raises(DatabaseBusyError):
                async with second.acquire_async(patience=0.05):
                    pass
        await hold(second)
        assert index.lease("files").acquire(timeout=0)

    async def hold(lease):
        async with lease.acquire_async(patience=PATIENCE):
            pass

    asyncio.run(work())
