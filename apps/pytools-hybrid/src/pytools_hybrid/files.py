"""The user's configuration folder, files that strangers may have named, and atomic replacement."""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

__all__ = ["discard_unfinished", "newline_of", "own_folder", "read_regular_file", "replace_file"]


def own_folder() -> Path:
    """Return the folder for the user's decisions: `$XDG_CONFIG_HOME/pytools-hybrid`."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "pytools-hybrid"


def read_regular_file(path: Path, *, limit: int) -> bytes:
    """Read a file whole, unless it is a pipe, a device, or larger than `limit` bytes.

    Reading such a file might never end, and a stranger's tree or settings can name one.

    Raises:
        OSError: It cannot be read, is not a regular file, or is too large; `strerror` says why.
    """
    # Opening a device can have effects, so the kind is also checked before.
    _require_regular(path.stat())
    descriptor = os.open(
        path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
    )
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


def replace_file(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Replace a file's content in one step; a link stays, and what it points to is replaced.

    `mode` is for a new file, None for what the umask allows. An existing file keeps its own.
    """
    path = Path(os.path.realpath(path))
    with suppress(FileNotFoundError):
        mode = stat.S_IMODE(path.stat().st_mode)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o666 & ~_umask() if mode is None else mode)
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def discard_unfinished(path: Path) -> None:
    """Remove files that a killed `replace_file` left beside a file.

    A process that is replacing the file at that moment gets an `OSError`.
    """
    path = Path(os.path.realpath(path))
    unfinished = re.compile(rf"\.{re.escape(path.name)}-[a-z0-9_]{{8}}\.tmp")
    with suppress(OSError):
        for left in [it for it in path.parent.iterdir() if unfinished.fullmatch(it.name)]:
            left.unlink()


def newline_of(text: str) -> str:
    """Return the line ending of a text, for lines that are added to it."""
    return "\r\n" if "\r\n" in text else "\n"


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
