"""Reading long lines and floods from a process in linear time.

The library scans a line from its beginning whenever 64 KiB arrive. A line of 64 MiB takes minutes,
and meanwhile no other server is read. A notification takes as long as a call. The library's reader
cannot be replaced through its API.
"""

from __future__ import annotations

import re
from typing import Any

from anyio.streams.text import TextReceiveStream

LONGEST_LINE = 32 << 20
"""The approximate maximum length of a message, in characters; longer ones are discarded."""

_LOOKED_AT = 1000
_FEW_LINES = 16
# Of a call's simultaneous reports only the last is passed on anyway, and log messages never are.
_REPORTS = 256
_TOKEN = re.compile(r'"progressToken"\s*:\s*("[^"]*"|\d+)')
_REPORT = re.compile(
    r'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?'
    r'"method"\s*:\s*"notifications/(?:progress|message)"'
)
# The members of an object can be in any order, and nested objects may have an id too.
_VERSION = r'"jsonrpc"\s*:\s*"2\.0"'
_FIRST = re.compile(rf'\s*\{{\s*(?:{_VERSION}\s*,\s*)?"id"\s*:\s*(\d{{1,15}})\s*,')
_LAST = re.compile(rf',\s*"id"\s*:\s*(\d{{1,15}})\s*(?:,\s*{_VERSION}\s*)?\}}\s*$')
_TOO_LONG = (
    '{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,'
    '"message":"its answer is longer than {most} MiB"}}}}\n'
)


class WholeLines(TextReceiveStream):
    """A stream of text in whole lines: each received text ends with a line."""

    async def receive(self) -> str:
        """Wait for the end of a line; an answer that is too long becomes an error.

        Raises:
            EndOfStream: The stream has ended; an unfinished last line is not returned.
        """
        kept: str = getattr(self, "_kept", "")
        pieces, length = [kept], len(kept)
        while length <= LONGEST_LINE:
            piece = await super().receive()
            whole, end, rest = piece.rpartition("\n")
            if end:
                self._kept = rest
                return _without_floods("".join((*pieces, whole, end)))
            pieces.append(piece)
            length += len(piece)
        return await self._after("".join(pieces)[:_LOOKED_AT], pieces[-1])

    async def _after(self, begin: str, last: str) -> str:
        end = rest = ""
        while not end:
            piece = await super().receive()
            tail, end, rest = piece.partition("\n")
            last = (last + tail)[-_LOOKED_AT:]
        lines, end, self._kept = rest.rpartition("\n")
        found = _FIRST.match(begin) or _LAST.search(last)
        error = _TOO_LONG.format(id=found[1], most=LONGEST_LINE >> 20) if found else ""
        return f"{error}{lines}{end}"


def _without_floods(text: str) -> str:
    """Drop log messages, and all but the last of each call's simultaneous progress reports.

    If there are more than 256 calls, the reports of the others are dropped too.
    """
    if text.count("\n") <= _FEW_LINES:
        return text
    # Not `splitlines`, which splits at characters that a message may contain.
    lines = text.split("\n")
    reports = [number for number, line in enumerate(lines) if _REPORT.match(line)]
    tokens = ((_TOKEN.search(lines[number]), number) for number in reports)
    last = {found[1]: number for found, number in tokens if found}
    kept = set(sorted(last.values())[-_REPORTS:])
    left_out = set(reports) - kept
    return "\n".join(line for number, line in enumerate(lines) if number not in left_out)


def read_whole_lines() -> None:
    """Have the library read whole lines from the processes that it starts."""
    from mcp.client import stdio

    library: Any = stdio
    library.TextReceiveStream = WholeLines
