"""The user's configuration folder, and atomic replacement of files."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

__all__ = ["discard_unfinished", "newline_of", "own_folder", "replace_file"]


def own_folder() -> Path:
    """Return the folder for the user's decisions, such as `~/.config/pytools-hybrid`."""
    from platformdirs import user_config_path

    return user_config_path("pytools-hybrid")


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
