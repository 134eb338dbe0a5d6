"""Correcting the spelling of a word: the terms of an index that are spelt like it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from toolrank._query import STOP_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_REMEMBERED = 1024
_MAX_SIMILAR = 3
_MIN_LETTERS = 4
SHORT = 4
"""A word of up to this length may well be an acronym."""

# Words of this length may contain two typos.
_LONG = 8
_MAX_LETTERS = 32
_SUFFIX_COST = 0.1
_MIN_STEM = 3
# The suffixes that Porter's stemmer removes, if they are recognizable in a misspelt word, and their
# common misspellings.
_SUFFIXES = tuple(
    """
    e y s es ed er or ers ing ings ign inng ion ions ate ation ations ative ication ications ment
    ments ly al ity able abel ible ance ances ant ants ence ences ent ents ic ics ical ive izer
    ize ized izing ness ful ies
    """.split()  # noqa: SIM905 - a block of words reads better than a list of strings
)


class SimilarTerm(NamedTuple):
    """A term that an unknown word may mean.

    Attributes:
        term: As it is in the index, where it may be a stem.
        documents: How many rows contain it.
        similarity: In (0, 1): 1 less the share of letters that differ, or, of a word that the
            term begins with, the share of the term that was given.
    """

    term: str
    documents: int
    similarity: float


class Vocabulary:
    """Finds the terms that are spelt like a word."""

    def __init__(self, documents: Mapping[str, int]) -> None:
        self._documents = {
            term: count
            for term, count in documents.items()
            if _MIN_LETTERS - 1 <= len(term) <= _MAX_LETTERS
            and term.isalpha()
            and term not in STOP_WORDS
        }
        # The first letter, the length or the set of letters rules out nearly every term.
        self._buckets: dict[tuple[str, int], list[tuple[str, int]]] = {}
        for term in self._documents:
            self._buckets.setdefault((term[0], len(term)), []).append((term, letters_of(term)))
        self._sorted = sorted(self._documents)
        # Searching all terms in one string takes a tenth of the time of a loop.
        self._joined = "\n".join(["", *self._sorted, ""])
        self._similar: dict[str, list[SimilarTerm]] = {}

    def __len__(self) -> int:
        """Return the number of terms that a word may mean."""
        return len(self._documents)

    def documents(self, term: str) -> int:
        """Return how many rows contain a term; 0 if it is unknown."""
        return self._documents.get(term, 0)

    def similar(self, word: str) -> list[SimilarTerm]:
        """Return the terms that a misspelt word may mean, best first, ties by term.

        One edit (a letter inserted, deleted or replaced, or two neighbours swapped) is allowed in
        words of 4 to 7 letters, two in longer ones; the first letter must be right, or swapped
        with the second. A word of 4 letters that does not look like one of the terms is only
        taken for one with the same letters, because it may be an acronym. If there is no such term,
        those that begin with the word.

        Returns:
            At most 3 terms, only those at the least distance. None for a word that is shorter
            than 4 letters or contains anything but letters.
        """
        if not (_MIN_LETTERS <= len(word) <= _MAX_LETTERS and word.isalpha()):
            return []
        # One request asks for the same word several times.
        found = self._similar.get(word)
        if found is None:
            if len(self._similar) >= _REMEMBERED:
                self._similar.clear()
            found = self._similar[word] = self._look(word)
        return found

    def _look(self, word: str) -> list[SimilarTerm]:
        found = self._misspelt(word)
        if found:
            least = min(int(cost) for cost in found.values())
            similarities = {
                term: 1 - max(cost, 1) / len(word)
                for term, cost in found.items()
                if int(cost) == least
            }
        else:
            similarities = {term: len(word) / (len(term) + 1) for term in self.beginning_with(word)}
        best = sorted(
            similarities, key=lambda term: (-similarities[term], -self._documents[term], term)
        )
        return [
            SimilarTerm(term=term, documents=self._documents[term], similarity=similarities[term])
            for term in best[:_MAX_SIMILAR]
        ]

    def beginning_with(self, word: str) -> Iterator[str]:
        """Yield the terms that begin with a word, itself included, in order."""
        for term in self._sorted[bisect_left(self._sorted, word) :]:
            if not term.startswith(word):
                break
            yield term

    def holding(self, piece: str) -> Iterator[str]:
        """Yield the terms that contain some letters, in order."""
        end = 0
        while (found := self._joined.find(piece, end)) >= 0:
            start = self._joined.rindex("\n", 0, found) + 1
            end = self._joined.index("\n", found)
            yield self._joined[start:end]

    def within(self, word: str, *, max_edits: int) -> Iterator[tuple[str, int]]:
        """Yield the terms within some edit distance of a word, with the distance.

        Unlike in `similar`, any letter may be wrong, the first too.
        """
        letters = letters_of(word)
        for (_, length), terms in self._buckets.items():
            longer = length - len(word)
            # A typo that makes the word longer removes no letter, and vice versa.
            lost, new = max_edits - max(longer, 0), max_edits - max(-longer, 0)
            if lost < 0 or new < 0:
                continue
            near = [
                term
                for term, of_term in terms
                if (letters & ~of_term).bit_count() <= lost
                and (of_term & ~letters).bit_count() <= new
            ]
            for term in near:
                distance = osa_distance(word, term, limit=max_edits)
                if distance <= max_edits:
                    yield term, distance

    def _misspelt(self, word: str) -> dict[str, float]:
        """Return terms by their cost: the edits, plus a little for each letter of a suffix."""
        found: dict[str, float] = {}
        for stem in stems(word):
            max_edits = 1 if len(stem) < _LONG else 2
            for term in self._near(stem, max_edits):
                distance = osa_distance(stem, term, limit=max_edits)
                if distance <= max_edits and (not distance or self._is_likely(word, stem, term)):
                    # Below 1 in total, so that an edit always costs more.
                    cost = distance + _SUFFIX_COST * (len(word) - len(stem))
                    found[term] = min(cost, found.get(term, cost))
        return found

    def _is_likely(self, word: str, stem: str, term: str) -> bool:
        """Return whether an unknown word is more likely a misspelt term than another name.

        A short one that begins like no term, or is a term after another letter, such as "gcal", is
        misspelt only if its letters are in another order.
        """
        return len(word) > SHORT or sorted(stem) == sorted(term) or not self._is_coined(stem)

    def _is_coined(self, word: str) -> bool:
        """Return whether no term begins like a word, or it is a letter before another term."""
        starts = next(self.beginning_with(word[:2]), None) is not None
        return not starts or word[1:] in self._documents

    def _near(self, stem: str, max_edits: int) -> Iterator[str]:
        """Yield the terms that are not ruled out by a quick check."""
        letters = letters_of(stem)
        for first in dict.fromkeys(stem[:2]):
            for length in range(len(stem) - max_edits, len(stem) + max_edits + 1):
                for term, of_term in self._buckets.get((first, length), ()):
                    # A wrong letter removes one letter and adds another.
                    if (letters ^ of_term).bit_count() > 2 * max_edits:
                        continue
                    if first == stem[0] or term[:2] == stem[1::-1]:
                        yield term


def osa_distance(a: str, b: str, *, limit: int) -> int:
    """Return the edit distance of two words.

    The optimal string alignment distance: insertions, deletions, replacements, and swaps of
    neighbours; no position is edited twice (Damerau 1964; Boytsov 2011).

    Returns:
        The distance, or any number above the limit if the distance is above it.
    """
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, char in enumerate(a, 1):
        older, before, row = before, row, [i]
        for j, other in enumerate(b, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (char != other))
            if i > 1 and j > 1 and char == b[j - 2] and other == a[i - 2]:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        if min(row) > limit and min(before) > limit:
            return limit + 1
    return row[-1]


def has_letters_of(word: str, term: str) -> bool:
    """Return whether a word has a term's letters in another order, or all but one of them."""
    return not len(term) - len(word) > 1 and not Counter(word) - Counter(term)


def letters_of(word: str) -> int:
    """Return the set of a word's letters as bits; two letters may share a bit."""
    bits = 0
    for char in word:
        bits |= 1 << (ord(char) & 31)
    return bits


def stems(word: str) -> tuple[str, ...]:
    """Return the word itself and what may be its stem in an index of stems.

    A misspelt word cannot be stemmed by the rules, because they depend on the wrong letters.
    """
    found = {word: None}
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _MIN_STEM:
            found[word.removesuffix(suffix)] = None
    if word.endswith("y"):
        found[word[:-1] + "i"] = None
    return tuple(found)


def forms(stem: str) -> tuple[str, ...]:
    """Return a stem and words that may have it, one of which is found in an index of stems."""
    return (stem, stem + "e", stem + "s", stem + "es", stem[:-1] + "y")
