"""The terms that a word may mean if it is truncated, misspelt, or part of another word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolrank._spelling import SimilarTerm, stems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolrank._spelling import Vocabulary

_MIN_LETTERS = 3
MAX_LETTERS = 32
# Too many terms contain a shorter string.
_MIN_INSIDE = 4
# Words of this length may contain two typos.
_LONG = 6
_MAX_TERMS = 12
_SUFFIX_COST = 0.1
_BEGINNING = 0.7
_INSIDE = 0.6


def approximate_terms(vocabulary: Vocabulary, word: str) -> list[SimilarTerm]:
    """Return the terms of a vocabulary that a word may mean, best first, ties by term.

    These are the terms one edit away, or two for words of 6 letters or more; those that begin
    with the word; those that contain it, if it has 4 letters or more; and the two that make it
    up, if it is two words written as one.

    Returns:
        At most 12, the word itself not among them.
    """
    if not (_MIN_LETTERS <= len(word) <= MAX_LETTERS and word.isalpha()):
        return []
    similarities: dict[str, float] = {}
    for found in (_misspelt, _begun, _holding, _made_up):
        for term, similarity in found(vocabulary, word):
            similarities[term] = max(similarity, similarities.get(term, 0.0))
    similarities.pop(word, None)
    best = sorted(
        similarities, key=lambda term: (-similarities[term], -vocabulary.documents(term), term)
    )
    return [
        SimilarTerm(term=term, documents=vocabulary.documents(term), similarity=similarities[term])
        for term in best[:_MAX_TERMS]
    ]


def _misspelt(vocabulary: Vocabulary, word: str) -> Iterator[tuple[str, float]]:
    for stem in stems(word):
        slips = 1 if len(stem) < _LONG else 2
        for term, distance in vocabulary.within(stem, slips=slips):
            cost = max(distance, 1) + _SUFFIX_COST * (len(word) - len(stem))
            yield term, max(1 - cost / len(word), 0.05)


def _begun(vocabulary: Vocabulary, word: str) -> Iterator[tuple[str, float]]:
    for term in vocabulary.beginning_with(word):
        yield term, _BEGINNING + (1 - _BEGINNING) * len(word) / (len(term) + 1)


def _holding(vocabulary: Vocabulary, word: str) -> Iterator[tuple[str, float]]:
    if len(word) >= _MIN_INSIDE:
        for term in vocabulary.holding(word):
            yield term, _INSIDE * len(word) / len(term)


def _made_up(vocabulary: Vocabulary, word: str) -> Iterator[tuple[str, float]]:
    for cut in range(_MIN_LETTERS, len(word) - _MIN_LETTERS + 1):
        halves = [_stem(vocabulary, half) for half in (word[:cut], word[cut:])]
        if all(halves):
            yield from ((half, len(half) / len(word)) for half in halves)


def _stem(vocabulary: Vocabulary, word: str) -> str:
    """Return the term that a word is indexed as, or an empty string if no row contains it."""
    return next((stem for stem in stems(word) if vocabulary.documents(stem)), "")
