"""Paths where an index is impossible: what is wrong with them, and what to do about it."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from toolindex.errors import DatabaseError

if TYPE_CHECKING:
    from pathlib import Path

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
"""The system's errors if it cannot lock files."""
# A connection has two databases, each with a log and the log's index. One of them is opened alone
# before it is attached, and there is a temporary file.
_NEEDED = 8
_ERRORS = (errno.EMFILE, errno.ENFILE)


def explained(path: Path, error: OSError) -> DatabaseError:
    """Return the error to raise if the system refuses a file, or its folder, at a path."""
    folder, reason = path.parent, os.strerror(error.errno) if error.errno else str(error)
    match error.errno:
        case errno.EACCES | errno.EPERM:
            message = (
                f"you have no permission to create files in {_nearest(folder)}; make that folder "
                "writable for you, or choose another path"
            )
        case errno.EROFS:
            message = f"{_nearest(folder)} cannot be written (read-only); choose another path"
        case errno.ENOTDIR | errno.EEXIST:
            message = f"{_nearest(folder)} is a file, not a folder; choose another path"
        case errno.ENAMETOOLONG:
            message = "the name is too long for this system; choose a shorter one"
        case errno.ELOOP:
            message = "its symbolic links form a loop; choose another path"
        case errno.ENOSPC | errno.EDQUOT:
            message = "the disk is full; free some space and run it again"
        case number if number in NO_LOCKS:
            return without_locks(path, reason)
        case _:
            message = (
                f"no file can be created in {_nearest(folder)} ({reason}); choose another path"
            )
    return DatabaseError(path, message)


def without_locks(path: Path, reason: str) -> DatabaseError:
    """Return the error to raise if files cannot be locked, which every index needs."""
    return DatabaseError(
        path,
        f"files cannot be locked there, as on some network drives ({reason}); choose a path on a "
        "local disk",
    )


def are_exhausted(error: Exception) -> bool:
    """Return whether a failure comes from a lack of file descriptors, which SQLite does not say.

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


def refuse_special_files(path: Path) -> None:
    """Raise if a path leads to something other than a regular file."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - pathlib raises for some paths
    except (OSError, ValueError):
        return
    if stat.S_ISDIR(mode):
        raise DatabaseError(path, "this is a folder; give the path of a file in it")
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something other than a regular file")
        raise DatabaseError(path, f"this is {kind}; give the path of a file")


def refuse_without_locks(path: Path) -> None:
    """Raise if the system cannot lock files, which SQLite reports as if the lock were held.

    This uses another file beside the database, because closing the database itself would release
    this process's locks on it.
    """
    try:
        import fcntl
    except ImportError:  # Windows always locks.
        return
    import tempfile  # Rarely needed.

    try:
        with tempfile.TemporaryFile(dir=path.parent) as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in NO_LOCKS:
            raise without_locks(path, os.strerror(error.errno)) from error


def _nearest(folder: Path) -> Path:
    """Return a folder if it exists, otherwise the nearest one above it that does."""
    return next((it for it in (folder, *folder.parents) if os.path.lexists(it)), folder)
