from __future__ import annotations

from pydantic import BaseModel, Field


class Comparison(BaseModel):
    """How two texts differ."""

    identical: bool = Field(..., title="Whether there is no difference")
    similarity: float = Field(..., title="Share of lines in common, from 0 to 1")
    added: int = Field(..., title="Lines only in the second file")
    removed: int = Field(..., title="Lines only in the first file")
    diff: str = Field(..., title="Unified diff")


def run(first: str, second: str, ignore_whitespace: bool = False) -> Comparison:
    """Compare two text files on disk and show where they differ.

    The files need not be under version control; for changes in a repository git_diff is better.

    Args:
        first: Path of the older or reference file
        second: Path of the newer file
        ignore_whitespace: Treat lines that differ only in blanks as equal

    Returns:
        Counts of added and removed lines, a similarity and the diff
    """
    from .impl import compare

    return compare(first, second, ignore_whitespace=ignore_whitespace)
