"""Whether a file could not be opened because too many are: SQLite does not say why."""

from __future__ import annotations

import errno
import os

# A connection holds two databases, each with its log and the log's index. Another one is opened
# alone before it is attached, and one file takes what spills.
_NEEDED = 8
_ERRORS = (errno.EMFILE, errno.ENFILE)


def are_exhausted(error: Exception) -> bool:
    """Return whether a failure comes from a lack of file descriptors.

    Args:
        error: The failure. Where it says so itself, it is believed, even if files were closed
            since.
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
