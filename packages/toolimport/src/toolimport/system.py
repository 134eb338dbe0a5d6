"""Reading files that may never end."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["read_regular_file"]

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
