"""Requests: their terms, which are always a valid full-text query, and their subqueries."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

STOP_WORDS = frozenset(
    """
    a about all also am an and any are as at be been but by can could did do does doing
    for from had has have having he help her here him his how i if in into is it its just
    let like me my need no not of on or our out please she should so some than that the
    their them then there these they this those to us want was we were what when where
    which who why will with would you your
    """.split()  # noqa: SIM905 - a block of words reads better than a list of 90 strings
)
"""English words that say nothing about which document a request to an assistant means."""


MAX_TERMS = 64
"""Distinct terms searched for at most. A pasted document is cut here, not refused: BM25
costs grow with the number of terms, and the first ones carry the request."""

_MAX_WORDS = 4 * MAX_TERMS
_MAX_PHRASES = 4

# Letters of scripts without spaces between words, and the marks on them, one entry per script: a
# run that is split for the index must be split the same way here. Digits and punctuation end a run.
_UNSPACED_SCRIPTS = (
    # Han and kana, which Japanese combines in one word.
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3041-\u3096\u3099\u309a\u309d-\u309f"
    "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U0001aff0-\U0001b16f\U00020000-\U0003ffff",
    # Hangul
    "\u1100-\u11ff\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb",
    # Thai
    "\u0e01-\u0e3a\u0e40-\u0e4e",
    # Lao
    "\u0e81-\u0ece\u0edc-\u0edf",
    # Khmer
    "\u1780-\u17d3\u17d7\u17dc\u17dd",
    # Myanmar
    "\u1000-\u103f\u1050-\u108f\u109a-\u109d\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa76\uaa7a-\uaa7f",
)
# Expressions are compiled where they are first used: that takes longer than importing the modules.
_WORD = (
    "|".join(f"(?:[{script}]+)" for script in _UNSPACED_SCRIPTS)
    + f"|(?P<spaced>[^\\W_{''.join(_UNSPACED_SCRIPTS)}]+)"
)
QUOTED = r'"([^"\n]{1,200})"|“([^“”\n]{1,200})”|«([^«»\n]{1,200})»|`([^`\n]{1,200})`'
"""A span in quotation marks; an apostrophe is not one."""
MAX_SUBQUERIES = 4
"""The maximum number of subqueries; of more, those with the most terms are kept."""

_MIN_TERMS = 2
# What follows these belongs to them; after other abbreviations, a capital begins a sentence.
_BEFORE_MORE = frozenset(
    """
    approx cf dept dr e.g eg fig i.e ie max min mr mrs ms no nr pp prof st tel vol vs
    """.split()  # noqa: SIM905 - a block of words reads better than a list of strings
)
_ABBREVIATIONS = _BEFORE_MORE | {
    *("al", "a.m", "co", "corp", "ed", "est", "etc", "inc", "jr", "ltd", "p.m", "sr", "u.k", "u.s")
}
# Runs of spaces have already been reduced to one, so no alternative starts with a repetition, and
# the time is linear in the length of the text.
_SEPARATOR = (
    r"(?i)(?P<line>\n)"
    r"|(?P<stop>(?<=[.!?;]) )"
    r"|(?P<other>[。！？；，、]"
    r"|,? (?:and then|and also|as well as|additionally|after that|afterwards|finally|then) "
    r"|, (?:and|also|but) |, | and )"
)
# The end of an acronym's plural.
_PLURAL = r"[A-Z]{2}s(?![a-z])"
_SPACES = r"[^\S\n\r\x0b\x0c\x85\u2028\u2029]+"
_LINES = r"\s*[\n\r\x0b\x0c\x85\u2028\u2029]\s*"
_BULLET = r"\A(?:[-*+•‣–—·]|\(?(?:\d{1,3}|[A-Za-z])[.)]) "
# Numbers within a line are a list if it begins with 1.
_NUMBERED = r"(?:^|[:\n] ?)\(?1[.)] "
_NUMBER = r" (?=\(?\d{1,2}[.)] )"


class Word(NamedTuple):
    """A word of a request, and its parts.

    Attributes:
        surface: As it was written, in Unicode's form NFKC.
        parts: The terms of an identifier, or the pairs of letters of a run that has no spaces;
            empty for a plain word.
        is_unspaced: Whether its script is written without spaces between words.
    """

    surface: str
    parts: tuple[str, ...] = ()
    is_unspaced: bool = False

    @property
    def terms(self) -> tuple[str, ...]:
        """The word whole, then its parts, in lower case."""
        return (self.surface.lower(), *self.parts)


class Term(NamedTuple):
    """A term to search for, and what is known about the word it comes from.

    Attributes:
        text: In lower case.
        has_parts: Whether it is a whole word whose parts are searched for as well.
        is_plain: Whether it was written as an ordinary word, not as a name, an identifier or an
            acronym.
    """

    text: str
    has_parts: bool = False
    is_plain: bool = False


class Query(NamedTuple):
    """A request, in the forms that a search needs.

    Attributes:
        text: The request as the user wrote it; any string at all.
        vector: Its embedding (one float per dimension); without it only words are searched.
        subqueries: What a compound request asks for, each a query of its own, searched for after
            the whole; empty if the request asks for one thing.
    """

    text: str
    vector: Sequence[float] | None = None
    subqueries: tuple[Query, ...] = ()

    @classmethod
    def of(cls, text: str) -> Query:
        """Return a request with its subqueries, at most four, without vectors."""
        return cls(text, None, tuple(map(cls, split_request(text))))

    def with_vectors(self, vectors: Sequence[Sequence[float] | None]) -> Query:
        """Return the request with its vector and one for each subquery, in this order."""
        own, *others = vectors
        pairs = zip(self.subqueries, others, strict=True)
        subqueries = tuple(each._replace(vector=vector) for each, vector in pairs)
        return self._replace(vector=own, subqueries=subqueries)

    @property
    def texts(self) -> list[str]:
        """What is to be embedded: the request, then its subqueries."""
        return [self.text, *(each.text for each in self.subqueries)]

    @property
    def terms(self) -> list[str]:
        """The terms that are searched for, at most 64; a request of signs alone has none."""
        return query_terms(self.text)


def query_terms(text: str) -> list[str]:
    """Split a request into the distinct lower-case terms to search for, in order.

    Identifiers are taken apart as well as kept whole (`createIssue` gives `createissue`,
    `create`, `issue`), so that they match both prose and names. Text in a script without spaces
    gives each pair of neighbouring letters besides the whole run. Stop words are dropped
    unless nothing else is left.

    Returns:
        At most `MAX_TERMS` terms, possibly none.
    """
    return [term.text for term in request_terms(text)]


def request_terms(text: str) -> list[Term]:
    """Return the terms of `query_terms` with what is known about their words."""
    terms = _all_terms(text)
    kept = [term for term in terms if term.text not in STOP_WORDS]
    return (kept or [*terms])[:MAX_TERMS]


# A search asks several times for the terms of its request and parts.
@lru_cache(maxsize=16)
def _all_terms(text: str) -> tuple[Term, ...]:
    terms: dict[str, Term] = {}
    for position, word in enumerate(query_words(text)):
        # A capital marks a name, except at the beginning of a sentence.
        is_written_plain = word.surface.islower() or (position == 0 and word.surface.istitle())
        is_plain = is_written_plain and word.surface.isalpha() and not word.parts
        whole, *parts = islice(word.terms, MAX_TERMS)
        terms.setdefault(whole, Term(whole, has_parts=bool(parts), is_plain=is_plain))
        for part in parts:
            terms.setdefault(part, Term(part))
        if len(terms) >= _MAX_WORDS:
            break
    return tuple(terms.values())


def query_words(text: str) -> Iterator[Word]:
    """Yield the words of a request in their order, stop words and repetitions included."""
    for match in re.finditer(_WORD, unicodedata.normalize("NFKC", text)):
        surface = match[0]
        if match["spaced"] is not None:
            yield Word(surface, tuple(_parts(surface)))
        # Vowel signs and tone marks separate tokens in SQLite's tokenizers.
        elif letters := "".join(filter(str.isalnum, surface)):
            pairs = dict.fromkeys(map("".join, pairwise(letters))) or {letters: None}
            yield Word(surface, () if surface in pairs else tuple(pairs), is_unspaced=True)


def quoted_phrases(text: str) -> list[str]:
    """Return the phrases of two words or more that a request has in quotation marks.

    A phrase is matched as a whole, besides its words: rows with its words next to each other, in
    this order, come first.

    Returns:
        The first few distinct ones, each as its lower-case words with spaces between.
    """
    phrases: dict[str, None] = {}
    for match in re.finditer(QUOTED, text):
        words = [word.surface.lower() for word in query_words(match[match.lastindex or 0])]
        if len(words) > 1:
            phrases[" ".join(words)] = None
        if len(phrases) == _MAX_PHRASES:
            break
    return list(phrases)


def match_expression(terms: Collection[str]) -> str:
    """Return an FTS5 query that matches rows with any of the terms.

    Each term is a quoted string (FTS5, "FTS5 Strings"), so none is read as an operator, a
    column or a syntax error; a term of several words is a phrase.

    Args:
        terms: What `query_terms` returns, or any strings.

    Returns:
        The expression, or an empty string when there is nothing to search for.
    """
    return " OR ".join('"' + encodable(term).replace('"', '""') + '"' for term in terms)


def encodable(term: str) -> str:
    """Replace NUL, which would end a statement early, and surrogates, which cannot be encoded."""
    return "".join(" " if char == "\0" or "\ud800" <= char <= "\udfff" else char for char in term)


def _parts(word: str) -> list[str]:
    """Split at `aB`, before the last capital of `ABc`, and between letters and digits.

    The plural of an acronym, as in `URLs`, stays whole.

    Returns:
        The parts in lower case, or none if the word is not split.
    """
    if word.islower() and word.isalpha():
        return []
    cuts = [
        position
        for position in range(1, len(word))
        if (before := word[position - 1]).isdigit() != (here := word[position]).isdigit()
        or (
            here.isupper()
            and (
                before.islower()
                or (
                    word[position + 1 : position + 2].islower()
                    and not re.match(_PLURAL, word[position - 1 :])
                )
            )
        )
    ]
    parts = [word[start:end].lower() for start, end in pairwise([0, *cuts, len(word)])]
    # A single letter ("s" of "S3") matches too much to be useful.
    return [part for part in parts if len(part) > 1] if cuts else []


def split_request(text: str) -> list[str]:
    """Split a compound request into the subqueries that may need an answer each.

    Cuts are made at the ends of sentences and lines, at commas, and at "and", "then", "after
    that" and the like; never within quotation marks, file names, numbers and abbreviations.
    Bullets and numbers of lists are taken off.

    Returns:
        The subqueries in their order, each with at least two terms that are not stop words, at
        most `MAX_SUBQUERIES`; none for a request that is not compound.
    """
    text = re.sub(_LINES, "\n", re.sub(_SPACES, " ", text.strip()))
    if whole := re.fullmatch(QUOTED, text):
        text = whole[whole.lastindex or 0]
    if re.search(_NUMBERED, text):
        text = re.sub(_NUMBER, "\n", text)
    kept = [span for match in re.finditer(QUOTED, text) for span in match.span()]
    pieces = [re.sub(_BULLET, "", piece.strip()).rstrip(" .!?;,:") for piece in _pieces(text, kept)]
    terms = [_terms(piece) for piece in pieces]
    # Python's sort is stable, so the first of equal pieces are kept.
    most = sorted(range(len(pieces)), key=lambda place: -terms[place])[:MAX_SUBQUERIES]
    chosen = [pieces[place] for place in sorted(most) if terms[place] >= _MIN_TERMS]
    return chosen if len(chosen) > 1 else []


def _pieces(text: str, kept: list[int]) -> list[str]:
    """Cut a text at its separators, except inside spans that are kept whole."""
    pieces: list[str] = []
    start, position = 0, 0
    for match in re.finditer(_SEPARATOR, text):
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


def _terms(text: str) -> int:
    words = [word for word in query_words(text) if word.surface.lower() not in STOP_WORDS]
    return sum(max(1, len(word.parts)) if word.is_unspaced else 1 for word in words)
