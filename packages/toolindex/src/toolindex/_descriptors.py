"""Finding out whether a failure is due to too many open files, which SQLite does not say."""

from __future__ import annotations

import errno
import os

# A connection has two databases, each with a log and the log's index. One of them is opened alone
# before it is attached, and there is a temporary file.
_NEEDED = 8
_ERRORS = (errno.EMFILE, errno.ENFILE)


def are_exhausted(error: Exception) -> bool:
    """Return whether a failure comes from a lack of file descriptors.

    Args:
        error: The failure. If it says so itself, that counts, even if files were closed since.
    """
    if isinstance(error, OSError):
        return error.errno in _ERRORS
    if any(os.strerror(number) in str(error) for number in _ERRORS):
        return True
    opened: list[int] = []
    try:
        for _ in range(_NEEDED):
            opened.append(os.open(os.devnull, os.O_RDONLY))  # noqa: PERF401 - closed below
    except OSError as lack:
        return lack.errno in _ERRORS
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return False
