"""TOML taken apart at its tables, as text: to say where one stands, and to change only that one."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass

__all__ = ["TomlBlock", "is_whole", "lines_of", "split_tables"]

_AFTER_NEWLINE = re.compile(r"(?<=\n)")


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
    lines = lines_of(text)
    starts, headers = [0], [0]
    for number, line in enumerate(lines):
        # Inside of a value, such a line is no header; what comes before it is then no document.
        if line.lstrip(" \t").startswith("[") and is_whole("".join(lines[starts[-1] : number])):
            starts.append(_above_comments(lines, number, least=headers[-1]))
            headers.append(number)
    ends = [*starts[1:], len(lines)]
    return [
        TomlBlock(header + 1, "".join(lines[start:end]))
        for header, start, end in zip(headers, starts, ends, strict=True)
    ]


def lines_of(text: str) -> list[str]:
    """Give the lines with their ends, as TOML counts them."""
    return [line for line in _AFTER_NEWLINE.split(text) if line]


def is_whole(text: str) -> bool:
    """Tell whether some lines of a valid document are one too: they end in no value."""
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _above_comments(lines: list[str], header: int, *, least: int) -> int:
    start = header
    while start > least and lines[start - 1].lstrip(" \t").startswith("#"):
        start -= 1
    # The last line of a long text may look like a comment.
    return start if is_whole("".join(lines[least:start])) else header
