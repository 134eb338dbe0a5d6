from __future__ import annotations

import hashlib
from collections import defaultdict
from pathlib import Path

from .api import DuplicateGroup


def find_duplicates(root: str, min_bytes: int, pattern: str) -> list[DuplicateGroup]:
    """Group files by size first, and by content only where sizes agree."""
    by_size: defaultdict[int, list[Path]] = defaultdict(list)
    for path in Path(root).rglob(pattern):
        if path.is_file() and not path.is_symlink() and (size := path.stat().st_size) >= min_bytes:
            by_size[size].append(path)

    groups = []
    for size, paths in by_size.items():
        if len(paths) < 2:
            continue
        by_digest: defaultdict[str, list[str]] = defaultdict(list)
        for path in paths:
            by_digest[digest(path)].append(str(path))
        groups += [
            DuplicateGroup(
                paths=sorted(copies), bytes_each=size, wasted_bytes=size * (len(copies) - 1)
            )
            for copies in by_digest.values()
            if len(copies) > 1
        ]
    return sorted(groups, key=lambda group: (-group.wasted_bytes, group.paths))


def digest(path: Path) -> str:
    """Hash the contents of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
