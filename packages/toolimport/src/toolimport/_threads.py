"""Starting threads at the end of a program, where Python 3.12.0 to 3.12.2 refuses to."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor


def start(thread: threading.Thread) -> None:
    """Start a thread, or say what to do if none can be started any more."""
    try:
        thread.start()
    except RuntimeError:
        if threading.main_thread().is_alive():
            raise
        raise RuntimeError(
            "the main thread has ended, and this version of Python then starts no other threads: "
            "have the main thread wait for the others (`Thread.join`), or use Python 3.12.3 or "
            "later"
        ) from None


def started_executor(name: str) -> ThreadPoolExecutor:
    """Create an executor whose threads are all running, so that no work has to start one.

    Raises:
        RuntimeError: The main thread has ended, or the system has no threads left.
    """
    size = min(32, (os.cpu_count() or 1) + 4)  # asyncio's own default
    executor = ThreadPoolExecutor(size, thread_name_prefix=name)
    # An executor only starts a thread while all others are busy.
    all_busy = threading.Barrier(size)
    try:
        for _ in range(size):
            executor.submit(all_busy.wait)
    except RuntimeError:
        all_busy.abort()
        raise
    return executor
