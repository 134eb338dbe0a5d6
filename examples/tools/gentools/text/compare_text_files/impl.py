from __future__ import annotations

from difflib import SequenceMatcher, unified_diff
from pathlib import Path

from .api import Comparison


def compare(first: str, second: str, *, ignore_whitespace: bool) -> Comparison:
    """Compare two files line by line."""
    old, new = read(first, ignore_whitespace), read(second, ignore_whitespace)
    lines = list(unified_diff(old, new, fromfile=first, tofile=second, lineterm=""))
    body = lines[2:]
    return Comparison(
        identical=old == new,
        similarity=SequenceMatcher(None, old, new, autojunk=False).ratio(),
        added=sum(line.startswith("+") for line in body),
        removed=sum(line.startswith("-") for line in body),
        diff="\n".join(lines),
    )


def read(path: str, ignore_whitespace: bool) -> list[str]:
    """Read the lines of a file, with runs of blanks made one if asked."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    return [" ".join(line.split()) for line in lines] if ignore_whitespace else lines
