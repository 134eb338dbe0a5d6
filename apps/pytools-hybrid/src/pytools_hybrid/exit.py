"""End the process while threads are still busy."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from pytools_hybrid.tracing import end_tracing

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["exit_now", "temporary_folder"]

_folders: set[Path] = set()


@contextmanager
def temporary_folder() -> Generator[Path]:
    """Create a temporary folder for a block; `exit_now` removes it if the block has not ended."""
    from tempfile import mkdtemp

    folder = Path(mkdtemp(prefix="pytools-hybrid-"))
    _folders.add(folder)
    try:
        yield folder
    finally:
        _remove(folder)
        _folders.discard(folder)


def exit_now(status: int) -> NoReturn:
    """End the process without waiting for its threads.

    A thread may be reading from stdin or be in the middle of a long scan, and an ordinary exit
    would wait for it. The index is consistent at any moment.
    """
    end_tracing()
    for folder in tuple(_folders):
        _remove(folder)
    sys.stderr.flush()
    os._exit(status)


def _remove(folder: Path) -> None:
    from shutil import rmtree

    rmtree(folder, ignore_errors=True)
