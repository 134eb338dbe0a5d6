"""TOML taken apart at its tables, as text: to say where one stands, and to change only that one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import accumulate, pairwise

__all__ = ["TomlBlock", "bare_dots", "split_tables", "statements"]

# What ends a statement is a newline that is in no text, comment or bracket. A long text may end
# in quotation marks of its own, besides those that close it. One that is never closed goes on to
# the end, so that no document is looked through again and again.
_TOKEN = re.compile(
    r'''"""(?:[^\\]|\\.)*?(?:"{3,5}|\\?\Z)'''
    r"""|'''.*?(?:'{3,5}|\Z)"""
    r"""|"(?:[^"\\\n]|\\[^\n])*+"?"""
    r"""|'[^'\n]*'?"""
    r"""|\#[^\n]*"""
    r"""|[\[\]{}.\n]""",
    re.DOTALL,
)
_DEEPER = {"[": 1, "{": 1, "]": -1, "}": -1}


@dataclass(frozen=True, slots=True)
class TomlBlock:
    """A table as it is written, with the comments right above it.

    Attributes:
        line: The number of its header's line; 1 for what stands before any table.
        text: All of it, up to the next block.
    """

    line: int
    text: str


def split_tables(text: str) -> list[TomlBlock]:
    """Take a valid document apart; the first block is what stands before any table.

    The texts of all blocks, one after the other, are the document.
    """
    parts = statements(text)
    lines = list(accumulate((part.count("\n") for part in parts), initial=1))
    starts, headers = [0], [0]
    for number, part in enumerate(parts):
        if part.lstrip(" \t").startswith("["):
            starts.append(_above_comments(parts, number, least=headers[-1]))
            headers.append(number)
    ends = [*starts[1:], len(parts)]
    return [
        TomlBlock(lines[header], "".join(parts[start:end]))
        for header, start, end in zip(headers, starts, ends, strict=True)
    ]


def statements(text: str) -> list[str]:
    """Take a valid document apart into headers, pairs, comments and empty lines."""
    ends, depth = [0], 0
    for token in _TOKEN.finditer(text):
        depth += _DEEPER.get(token[0], 0)
        if token[0] == "\n" and depth == 0:
            ends.append(token.end())
    if ends[-1] < len(text):
        ends.append(len(text))
    return [text[start:end] for start, end in pairwise(ends)]


def bare_dots(text: str) -> int:
    """Return the most dots, in no text and no comment, on one line: one less than a key's parts.

    The document need not be valid.
    """
    most = count = 0
    for token in _TOKEN.finditer(text):
        count = count + 1 if token[0] == "." else 0 if token[0] == "\n" else count
        most = max(most, count)
    return most


def _above_comments(parts: list[str], header: int, *, least: int) -> int:
    start = header
    while start > least and parts[start - 1].lstrip(" \t").startswith("#"):
        start -= 1
    return start
