"""End the process while threads are still busy."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

__all__ = ["before_exit", "end", "exit_now", "temporary_folder"]

before_exit: list[Callable[[], object]] = []
"""What is still to be done at the end of the process, quickly."""

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


def end() -> None:
    """Do what is still to be done at the end of the process."""
    while before_exit:
        before_exit.pop()()


def exit_now(status: int) -> NoReturn:
    """End the process without waiting for its threads.

    A thread may be reading from stdin or be in the middle of a long scan, and an ordinary exit
    would wait for it. The index is consistent at any moment.
    """
    end()
    for folder in tuple(_folders):
        _remove(folder)
    sys.stderr.flush()
    os._exit(status)


def _remove(folder: Path) -> None:
    from shutil import rmtree

    rmtree(folder, ignore_errors=True)
