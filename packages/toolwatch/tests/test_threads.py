"""The watch for threads, and what both kinds of watch leave behind."""

import gc
import os
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path, PurePosixPath

from toolwatch import watch_tools

from .conftest import PATIENCE

OPEN = Path("/proc/self/fd")


def descriptors():
    return set(os.listdir(OPEN)) if OPEN.is_dir() else set()  # noqa: PTH208


def all_given_back(threads, files):
    """Wait until all new threads and descriptors are gone, and return whether they are.

    A library may close files in a separate thread, even some time after the test that opened them.
    """
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if set(threading.enumerate()) <= threads and descriptors() <= files:
            return True
        time.sleep(0.01)
    return False


def test_setting_the_stop_event_in_another_thread_ends_the_watch(root):
    stop, watching, seen = threading.Event(), threading.Event(), []

    def follow():
        for batch in watch_tools(root, stop=stop):
            seen.append(batch.rescan)
            watching.set()

    thread = threading.Thread(target=follow)
    thread.start()
    assert watching.wait(PATIENCE)
    # The watch spends most of its time waiting: let it begin to wait.
    thread.join(0.1)
    stop.set()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert seen == [True]


def test_a_watch_whose_stop_event_is_already_set_yields_nothing(root):
    stop = threading.Event()
    stop.set()
    assert list(watch_tools(root, stop=stop)) == []


def test_closing_the_iterator_leaves_no_thread_and_no_open_file(root):
    gc.collect()
    threads, files = set(threading.enumerate()), descriptors()
    batches = watch_tools(root)
    next(batches)
    batches.close()
    assert all_given_back(threads, files)


def test_an_abandoned_iterator_leaves_no_thread_and_no_open_file(root):
    gc.collect()
    threads, files = set(threading.enumerate()), descriptors()
    for _ in watch_tools(root):
        break
    gc.collect()
    assert all_given_back(threads, files)


def test_a_program_may_end_while_it_watches(root):
    code = "import sys, toolwatch; watch = toolwatch.watch_tools(sys.argv[1]); next(watch)"
    program = [sys.executable, "-W", "error", "-c", code, str(root)]
    ran = subprocess.run(program, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_an_iterator_that_is_never_started_uses_no_resources(root):
    files = descriptors()
    batches = watch_tools(root)
    assert descriptors() <= files
    del batches


def test_changes_between_two_calls_are_in_the_next_batch(root):
    with closing(watch_tools(root)) as batches:
        next(batches)
        for number in range(20):
            (root / f"folder_{number}" / "deep").mkdir(parents=True)
            (root / f"folder_{number}" / "deep" / "tool.py").write_text("x")
        assert next(batches).paths == {PurePosixPath(f"folder_{n}") for n in range(20)}
        (root / "folder_7" / "deep" / "later.py").write_text("x")
        assert PurePosixPath("folder_7/deep/later.py") in next(batches).paths


def test_a_file_that_is_written_constantly_is_reported_occasionally(root):
    """It never settles, but must be reported from time to time, and not at every write."""
    stop = threading.Event()
    file = root / "log.py"
    file.write_text("")

    def write():
        writes = 0
        while not stop.is_set():
            file.write_text(str(writes))
            writes += 1
            time.sleep(0.002)

    with closing(watch_tools(root)) as batches:
        assert next(batches).rescan
        thread = threading.Thread(target=write)
        thread.start()
        began = time.monotonic()
        try:
            given = [next(batches) for _ in range(10)]
        finally:
            took = time.monotonic() - began
            stop.set()
            thread.join(PATIENCE)
    assert all(batch.paths == {PurePosixPath("log.py")} for batch in given)
    # Ten in a row take a second. If a slow machine writes once in a while, the first ones after a
    # silence are prompt again, but the silence itself has taken a quarter of a second.
    assert took > 0.3
