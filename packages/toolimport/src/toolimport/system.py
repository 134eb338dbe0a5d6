"""Reading files that may never end, and starting threads at the end of a program."""

from __future__ import annotations

import errno
import os
import stat
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

__all__ = ["read_regular_file", "start_thread", "started_executor"]

_LIMIT = 256 << 20


def read_regular_file(path: Path, *, limit: int = _LIMIT) -> bytes:
    """Read a file whole, unless it is a pipe, a device, or larger than `limit` bytes.

    Reading such a file might never end, and a stranger's tree or configuration can name one.

    Raises:
        OSError: It cannot be read, is not a regular file, or is too large; `strerror` says why.
    """
    # Opening a device can have effects, so the kind is also checked before.
    _require_regular(path.stat())
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
        status = os.fstat(descriptor)
        _require_regular(status)
        content = b"" if status.st_size > limit else file.read(limit + 1)
    if max(status.st_size, len(content)) > limit:
        size = f"{limit >> 20} MiB" if limit >> 20 else f"{limit} bytes"
        raise OSError(errno.EFBIG, f"it is larger than {size}")
    return content


def _require_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")


def start_thread(thread: threading.Thread) -> None:
    """Start a thread.

    Raises:
        RuntimeError: The system has no threads left, or the main thread has ended (with Python
            3.12.0 to 3.12.2).
    """
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

    Python 3.12.0 to 3.12.2 starts no threads at the end of a program.

    Raises:
        RuntimeError: The main thread has ended, or the system has no threads left.
    """
    # Imported here because it is rarely needed, and takes long.
    from concurrent.futures import ThreadPoolExecutor

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
