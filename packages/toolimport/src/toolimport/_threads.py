"""Threads at the end of a program, when Python 3.12.0 to 3.12.2 start none any more."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor


def start(thread: threading.Thread) -> None:
    """Start a thread, or say what to do where none can be started any more.

    Raises:
        RuntimeError: The main thread has ended, or the system has no thread left.
    """
    try:
        thread.start()
    except RuntimeError:
        if threading.main_thread().is_alive():
            raise
        raise RuntimeError(
            "the main thread has ended, and this version of Python starts no other after that: "
            "have the main thread wait for the others (`Thread.join`), or use Python 3.12.3 or "
            "later"
        ) from None


def started_executor(name: str) -> ThreadPoolExecutor:
    """Make an executor whose threads all run already, so that work at the end needs no new one.

    Args:
        name: What its threads are called.

    Raises:
        RuntimeError: The main thread has ended, or the system has no thread left.
    """
    size = min(32, (os.cpu_count() or 1) + 4)  # as many as asyncio takes itself
    executor = ThreadPoolExecutor(size, thread_name_prefix=name)
    # An executor starts a thread only while all it has are busy.
    all_busy = threading.Barrier(size)
    try:
        for _ in range(size):
            executor.submit(all_busy.wait)
    except RuntimeError:
        all_busy.abort()
        raise
    return executor
