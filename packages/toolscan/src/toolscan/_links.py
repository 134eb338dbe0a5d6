"""Staying inside a root, wherever symbolic links lead."""

from __future__ import annotations

import os

from toolscan._records import Reason, Rejection


def outside_root() -> Rejection:
    """Explain that a link leads out of the root, and what to do."""
    return Rejection(
        Reason.OUTSIDE_ROOT,
        "A symbolic link leads out of the root here: move its target into the root, or allow "
        "outside links.",
    )


def leads_outside(path: str, inside: str) -> bool:
    """Return whether a path leads out of a folder, which is given by its real path."""
    return not _lies_in(os.path.realpath(path), inside)


def refuse_opened_outside(fd: int, path: str, inside: str) -> None:
    """Reject an open file that lies outside of a folder, however the path to it changes meanwhile.

    Args:
        fd: The open file.
        path: The path that it was opened by.
        inside: The folder's real path.

    Raises:
        OSError: The file is no longer where it was opened.
        Rejection: It lies outside.
    """
    try:
        real = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115  (a str all along)
    except OSError:
        # Not Linux: the path is resolved again, and must lead to the very file that is open.
        real = os.path.realpath(path)
        if not os.path.samestat(os.lstat(real), os.fstat(fd)):
            raise FileNotFoundError(path) from None
    if not _lies_in(real, inside):
        raise outside_root()


def _lies_in(real: str, folder: str) -> bool:
    return real == folder or real.startswith(folder.rstrip(os.sep) + os.sep)
