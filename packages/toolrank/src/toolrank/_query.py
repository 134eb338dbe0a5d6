"""From what a user typed to a full-text query that is always valid."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = ["MAX_TERMS", "STOP_WORDS", "match_expression", "query_terms"]

MAX_TERMS = 64
"""Distinct terms searched for at most. A pasted document is cut here, not refused: BM25
costs grow with the number of terms, and the first ones carry the request."""

_MAX_WORDS = 4 * MAX_TERMS

STOP_WORDS: frozenset[str] = frozenset(
    """
    a about all also am an and any are as at be been but by can could did do does doing
    for from had has have having he help her here him his how i if in into is it its just
    let like me my need no not of on or our out please she should so some than that the
    their them then there these they this those to us want was we were what when where
    which who why will with would you your
    """.split()  # noqa: SIM905 - a block of words reads better than a list of 90 strings
)
"""English words that tell no document from another in requests to an assistant."""

_WORD = re.compile(r"[^\W_]+")


def query_terms(text: str, *, stop_words: Collection[str] = STOP_WORDS) -> list[str]:
    """Split a request into the distinct lower-case terms to search for, in order.

    Identifiers are taken apart as well as kept whole (`createIssue` gives `createissue`,
    `create`, `issue`), so that they meet both prose and names. Stop words are dropped
    unless nothing else is left.

    Args:
        text: Any string; what is not a letter or a digit separates words.
        stop_words: Lower-case words to leave out.

    Returns:
        At most `MAX_TERMS` terms of letters and digits, possibly none.
    """
    words: dict[str, None] = {}
    for word in _words(text):
        words[word] = None
        if len(words) == _MAX_WORDS:
            break
    kept = [word for word in words if word not in stop_words]
    return (kept or list(words))[:MAX_TERMS]


def match_expression(terms: Collection[str]) -> str:
    """Write terms as an FTS5 query that matches rows with any of them.

    Each term is a quoted string (FTS5, "FTS5 Strings"), so none is read as an operator, a
    column or a syntax error.

    Args:
        terms: What `query_terms` gives, or any strings.

    Returns:
        The expression, or an empty string when there is nothing to search for.
    """
    return " OR ".join('"' + _encodable(term).replace('"', '""') + '"' for term in terms)


def _encodable(term: str) -> str:
    """Put a space for what would end a statement early (NUL) or not reach it (a surrogate)."""
    return "".join(" " if char == "\0" or "\ud800" <= char <= "\udfff" else char for char in term)


def _words(text: str) -> Iterator[str]:
    for match in _WORD.finditer(unicodedata.normalize("NFKC", text)):
        word = match[0]
        yield word.lower()
        parts = _parts(word)
        if len(parts) > 1:
            # A single letter cut from a word ("s" of "S3") matches too much to help.
            yield from (part.lower() for part in parts if len(part) > 1)


def _parts(word: str) -> list[str]:
    """Cut at `aB`, before the last capital of `ABc`, and between letters and digits."""
    cuts = [
        position
        for position in range(1, len(word))
        if (before := word[position - 1]).isdigit() != (here := word[position]).isdigit()
        or (here.isupper() and (before.islower() or word[position + 1 : position + 2].islower()))
    ]
    return [word[start:end] for start, end in pairwise([0, *cuts, len(word)])]
