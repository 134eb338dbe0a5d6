from __future__ import annotations

from pydantic import BaseModel, Field


class DuplicateGroup(BaseModel):
    """Files whose contents are the same, byte for byte."""

    paths: list[str] = Field(..., title="The copies, sorted by path")
    bytes_each: int = Field(..., title="Size of one copy")
    wasted_bytes: int = Field(..., title="Space that keeping one copy would free")


def run(root: str, min_bytes: int = 1, pattern: str = "*") -> list[DuplicateGroup]:
    """Detect identical files stored more than once, whatever their names. Deletes nothing.

    Args:
        root: Directory to search, with everything below it
        min_bytes: Ignore files smaller than this
        pattern: Glob that the file name must match, such as "*.jpg"

    Returns:
        Groups of copies, the most wasteful first
    """
    from .impl import find_duplicates

    return find_duplicates(root, min_bytes, pattern)
