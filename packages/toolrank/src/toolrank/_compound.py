"""Compound requests, and the parts that each ask for one thing."""

from __future__ import annotations

import re

from toolrank._query import QUOTED, query_words
from toolrank._stop_words import STOP_WORDS

MAX_PARTS = 4
"""The most parts that a request is split into; of more, those of the most terms are kept."""

_MIN_TERMS = 2
# What follows these belongs to them; after the others, a capital begins a sentence.
_BEFORE_MORE = frozenset(
    """
    approx cf dept dr e.g eg fig i.e ie max min mr mrs ms no nr pp prof st tel vol vs
    """.split()  # noqa: SIM905 - a block of words reads better than a list of strings
)
_ABBREVIATIONS = _BEFORE_MORE | {
    *("al", "a.m", "co", "corp", "ed", "est", "etc", "inc", "jr", "ltd", "p.m", "sr", "u.k", "u.s")
}
# Runs of spaces are one space by then, so that no alternative starts with a repetition: the
# time that this takes grows with the text and not with its square.
_SEPARATOR = re.compile(
    r"(?P<line>\n)"
    r"|(?P<stop>(?<=[.!?;]) )"
    r"|(?P<other>[。！？；，、]"
    r"|,? (?:and then|and also|as well as|additionally|after that|afterwards|finally|then) "
    r"|, (?:and|also|but) |, | and )",
    re.IGNORECASE,
)
_SPACES = re.compile(r"[^\S\n\r\x0b\x0c\x85\u2028\u2029]+")
_LINES = re.compile(r"\s*[\n\r\x0b\x0c\x85\u2028\u2029]\s*")
_BULLET = re.compile(r"\A(?:[-*+•‣–—·]|\(?(?:\d{1,3}|[A-Za-z])[.)]) ")
# Numbers within a line are a list if it begins with 1.
_NUMBERED = re.compile(r"(?:^|[:\n] ?)\(?1[.)] ")
_NUMBER = re.compile(r" (?=\(?\d{1,2}[.)] )")


def split_request(text: str) -> list[str]:
    """Split a compound request into the parts that may need an answer each.

    Cuts are made at the ends of sentences and lines, at commas, and at "and", "then", "after
    that" and the like; never within quotation marks, file names, numbers and abbreviations.
    Bullets and numbers of lists are taken off.

    Args:
        text: Any string.

    Returns:
        The parts in their order, each with at least two terms that are no stop words, at most
        `MAX_PARTS`; none for a request that is not compound.
    """
    text = _LINES.sub("\n", _SPACES.sub(" ", text.strip()))
    if whole := QUOTED.fullmatch(text):
        text = whole[whole.lastindex or 0]
    if _NUMBERED.search(text):
        text = _NUMBER.sub("\n", text)
    kept = [span for match in QUOTED.finditer(text) for span in match.span()]
    parts = [_BULLET.sub("", piece.strip()).rstrip(" .!?;,:") for piece in _pieces(text, kept)]
    terms = [_terms(part) for part in parts]
    # Python's sort keeps the order of equals, so that of them the first are kept.
    most = sorted(range(len(parts)), key=lambda position: -terms[position])[:MAX_PARTS]
    chosen = [parts[position] for position in sorted(most) if terms[position] >= _MIN_TERMS]
    return chosen if len(chosen) > 1 else []


def _pieces(text: str, kept: list[int]) -> list[str]:
    """Cut a text at its separators, except inside spans that are kept whole."""
    pieces: list[str] = []
    start, position = 0, 0
    for match in _SEPARATOR.finditer(text):
        while position < len(kept) and kept[position] <= match.start():
            position += 1
        if position % 2 or (match["stop"] and _is_abbreviation(text, match.start())):
            continue
        pieces.append(text[start : match.start()])
        start = match.end()
    return [*pieces, text[start:]]


def _is_abbreviation(text: str, end: int) -> bool:
    """Return whether the full stop before a position belongs to a word."""
    if text[end - 1] != ".":
        return False
    before = text[max(0, end - 12) : end - 1]
    word = before[before.rfind(" ") + 1 :].lower().lstrip("(\"'")
    if text[end + 1 : end + 2].isupper():
        return word in _BEFORE_MORE or (len(word) == 1 and word.isalpha())
    return word in _ABBREVIATIONS or (len(word) == 1 and word.isalpha())


def _terms(part: str) -> int:
    words = [word for word in query_words(part) if word.surface.lower() not in STOP_WORDS]
    return sum(max(1, len(word.parts)) if word.is_unspaced else 1 for word in words)
