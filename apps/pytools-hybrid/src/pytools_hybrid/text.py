"""Untrusted text, made safe to show: on one line, as JSON, without hidden characters."""

from __future__ import annotations

import json
import re

__all__ = ["first_sentences", "json_text", "one_line", "readable"]

_NOT_ASCII = re.compile(r"[^\x20-\x7e]")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|(?<=[。！？])|\n\s*\n")
_WORD_END = re.compile(r"\s+")
# Control characters except tab and newline, characters that change the direction of writing, and
# those that no reader sees but a model may obey: Unicode tags, zero-width spaces, variation
# selectors except that for emoji. Joiners stay: scripts and emoji need them.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0e\ufeff"
    "\U000e0000-\U000e01ef]"
)


def readable(text: str) -> str:
    """Return untrusted text without characters that control a terminal or are invisible."""
    # Most text is plain, and a page has thousands of texts.
    if text.isascii() and text.isprintable():
        return text
    return _HIDDEN.sub(" ", text.replace("\r\n", "\n"))


def first_sentences(text: str, length: int) -> str:
    """Return the first sentences of a text, up to a length.

    If none ends in the second half of that length, the text is cut after the last word that fits.
    """
    begin = text[: length + 1]
    for end in (_SENTENCE_END, _WORD_END):
        ends = [found.start() for found in end.finditer(begin)]
        if ends and ends[-1] > length // 2:
            return begin[: ends[-1]]
    return begin[:length]


def one_line(text: str, length: int) -> str:
    """Turn any text into one printable line, up to a length."""
    line = "".join(it if it.isprintable() else " " for it in " ".join(text.split()))
    return line if len(line) <= length else f"{line[: length - 1].rstrip()}…"


def json_text(value: object, *, allow_nan: bool = True) -> str:
    """Write a value as compact JSON, whatever its texts contain.

    Characters that are invisible, move the cursor or change the direction of writing are escaped:
    this text may end up on a terminal.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=allow_nan, separators=(",", ":"))
    return _NOT_ASCII.sub(lambda found: _escaped(found[0]), text)


def _escaped(character: str) -> str:
    # The quotes of the JSON string are cut off.
    return character if character.isprintable() else json.dumps(character)[1:-1]
