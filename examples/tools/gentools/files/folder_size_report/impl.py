from __future__ import annotations

import os
from pathlib import Path

from .api import FolderSize


def report(root: str, top: int) -> list[FolderSize]:
    """Measure the root and its direct subfolders."""
    base = Path(root)
    if not base.is_dir():
        raise NotADirectoryError(f"{root} is not a directory")
    children = [path for path in base.iterdir() if path.is_dir() and not path.is_symlink()]
    sizes = sorted((measure(path) for path in children), key=lambda size: (-size.bytes, size.path))
    return [measure(base), *sizes[:top]]


def measure(folder: Path) -> FolderSize:
    """Add up the sizes of all files below a folder."""
    total = count = 0
    for directory, _, names in os.walk(folder):
        for name in names:
            path = Path(directory, name)
            if not path.is_symlink() and path.is_file():
                total += path.stat().st_size
                count += 1
    return FolderSize(path=str(folder), bytes=total, files=count)
