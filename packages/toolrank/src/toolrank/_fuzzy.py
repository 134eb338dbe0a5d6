"""Fuzzy retrieval: the rows with words similar to those of the request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolrank._approximate import MAX_LETTERS, approximate_terms
from toolrank._checks import check_scoring
from toolrank._lexicon import Reading
from toolrank._postings import NOWHERE, Posting, Postings, best_of
from toolrank._query import query_terms

if TYPE_CHECKING:
    from collections.abc import Hashable

    from toolrank._records import Filter, Hit, Query
    from toolrank.protocols import Lexicon

# These two were chosen by measurement: docs/decisions/0010.
_SHARPNESS = 2.0
_BESIDES_A_KNOWN_WORD = 0.4


class FuzzyRetriever:
    """Rank rows by words that may be misspelt, truncated or run together.

    Each word of a request, known or not, stands for itself and for similar terms of the rows: those
    one or two edits away, longer ones that begin with it or contain it, and the two words that it
    consists of. In each row it counts once: as the best of similarity² · BM25 over its terms, as
    though each were at least as common as the most similar one. If rows contain the word
    itself, other terms count less. The score is the sum over the words. A request without
    misspellings is answered a little worse than by `BM25Retriever`. `lexicon`, `common` and
    `evenness` are those of `BM25Retriever`.

    Args:
        where: The rows to search among.
        name: Its name in contributions.
        postings: A cache of what was read, as for `BM25Retriever`. Without it the vocabulary is
            read for each request.

    Raises:
        RankingArgumentError: A share that is not from 0 to 1.
    """

    def __init__(
        self,
        lexicon: Lexicon,
        *,
        where: Filter | None = None,
        name: str = "fuzzy",
        postings: Postings | None = None,
        common: float = 0.3,
        evenness: float = 1.0,
    ) -> None:
        check_scoring(common=common, evenness=evenness)
        self._lexicon = lexicon
        self._evenness = evenness
        self._where = where
        self._name = name
        self._postings = postings
        self._common = common

    @property
    def name(self) -> str:
        """The name given at construction."""
        return self._name

    def retrieve(self, query: Query, *, depth: int) -> list[Hit]:
        """Return the best `depth` rows with any term similar to one of the query's.

        Scores are sums of reduced BM25 scores, zero or more, higher is better.
        """
        words = query_terms(query.text)
        if not words:
            return []
        postings = self._postings or Postings()
        reading = Reading(
            self._lexicon, evenness=self._evenness, name=self._name, postings=postings
        )
        limit = reading.too_common(self._common)
        found = [self._standing_for(word, reading, postings, limit) for word in words]
        if not any(posting.rows for posting in found):
            found = [self._standing_for(word, reading, postings, reading.size()) for word in words]
        return reading.hits([(it, 1.0) for it in found], where=self._where, depth=depth)

    def _standing_for(self, word: str, reading: Reading, postings: Postings, limit: int) -> Posting:
        """Return the rows with a word or similar terms, each with the best of their scores."""
        exact = reading.posting(word, up_to=limit)
        if len(word) > MAX_LETTERS or exact.documents > limit:
            return exact if exact.is_read else NOWHERE
        key: Hashable = ("like", reading.key, limit, word)
        posting = postings.get(key)
        if posting is None:
            alike = [(exact, 1.0)] if exact.rows else []
            others = _BESIDES_A_KNOWN_WORD if exact.rows else 1.0
            for term in approximate_terms(reading.vocabulary(), word):
                read = reading.stem_posting(term, up_to=limit)
                if read is not None:
                    alike.append((read[1], others * term.similarity**_SHARPNESS))
            posting = best_of(alike, size=reading.size())
            postings.put(key, posting)
        return posting
