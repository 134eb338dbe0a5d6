"""Fuzzy retrieval: the rows with words similar to those of the request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolrank._postings import EMPTY, Posting, best_of
from toolrank._query import query_terms
from toolrank._spelling import SimilarTerm, stems

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from toolrank._full_text import FullTextTable
    from toolrank._records import Hit
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
    for found in (_misspelt, _prefixed, _containing, _compounds):
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
        max_edits = 1 if len(stem) < _LONG else 2
        for term, distance in vocabulary.within(stem, max_edits=max_edits):
            cost = max(distance, 1) + _SUFFIX_COST * (len(word) - len(stem))
            yield term, max(1 - cost / len(word), 0.05)


def _prefixed(vocabulary: Vocabulary, word: str) -> Iterator[tuple[str, float]]:
    for term in vocabulary.beginning_with(word):
        yield term, _BEGINNING + (1 - _BEGINNING) * len(word) / (len(term) + 1)


def _containing(vocabulary: Vocabulary, word: str) -> Iterator[tuple[str, float]]:
    if len(word) >= _MIN_INSIDE:
        for term in vocabulary.holding(word):
            yield term, _INSIDE * len(word) / len(term)


def _compounds(vocabulary: Vocabulary, word: str) -> Iterator[tuple[str, float]]:
    for cut in range(_MIN_LETTERS, len(word) - _MIN_LETTERS + 1):
        halves = [_stem(vocabulary, half) for half in (word[:cut], word[cut:])]
        if all(halves):
            yield from ((half, len(half) / len(word)) for half in halves)


def _stem(vocabulary: Vocabulary, word: str) -> str:
    """Return the term that a word is indexed as, or an empty string if no row contains it."""
    return next((stem for stem in stems(word) if vocabulary.documents(stem)), "")


# These two were chosen by measurement: docs/decisions/0010.
_SHARPNESS = 2.0
_BESIDES_A_KNOWN_WORD = 0.4


class FuzzyRetriever:
    """Rank rows by words that may be misspelt, truncated or run together.

    Expands each word by similar terms of the rows: those one or two edits away, longer ones that
    begin with it or contain it, and the two words that it consists of. A row's score for a word is
    the best over its terms of similarity² · BM25; rare terms get the IDF of the most similar one,
    because typos are rare. If rows contain the word itself, other terms count less. The score is
    the sum over the words. A request without misspellings is answered a little worse than by
    `BM25Retriever`.

    Args:
        table: Where the words are.
    """

    def __init__(self, table: FullTextTable) -> None:
        self._table = table

    def retrieve(self, text: str, *, depth: int) -> list[Hit]:
        """Return the best `depth` rows with any term similar to one of a request's.

        Scores are sums of reduced BM25 scores, zero or more, higher is better.
        """
        words = query_terms(text)
        if not words:
            return []
        limit = self._table.max_documents()
        found = [self._standing_for(word, limit) for word in words]
        if not any(posting.rows for posting in found):
            found = [self._standing_for(word, self._table.size()) for word in words]
        return self._table.hits([(it, 1.0) for it in found], depth=depth)

    def _standing_for(self, word: str, limit: int) -> Posting:
        """Return the rows with a word or similar terms, each with the best of their scores."""
        table = self._table
        exact = table.posting(word, up_to=limit)
        if len(word) > MAX_LETTERS or exact.documents > limit:
            return exact if exact.is_read else EMPTY
        key: Hashable = ("like", table.key, limit, word)
        posting = table.postings.get(key)
        if posting is None:
            alike = [(exact, 1.0)] if exact.rows else []
            others = _BESIDES_A_KNOWN_WORD if exact.rows else 1.0
            for term in approximate_terms(table.vocabulary(), word):
                read = table.stem_posting(term, up_to=limit)
                if read is not None:
                    alike.append((read[1], others * term.similarity**_SHARPNESS))
            posting = best_of(alike, size=table.size())
            table.postings.put(key, posting)
        return posting
