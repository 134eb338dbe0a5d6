"""Reading a lexicon for a retriever: once for each request, with its errors translated."""

from __future__ import annotations

import math
from array import array
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from toolrank._postings import EMPTY, Posting, PostingsCache, best_sums
from toolrank._records import Hit
from toolrank._spelling import SimilarTerm, Vocabulary, forms
from toolrank.errors import RetrievalError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence, Set

    from toolrank._records import Filter
    from toolrank.protocols import Lexicon

_T = TypeVar("_T")

_LEAST_IDF = 1e-6
# So few rows are read quickly, and in a small table common words are useful.
FEW_ROWS = 100
# No term is this long, and caching it would take as much memory as a thousand terms.
_MAX_TERM = 1000


class CachedLexicon:
    """A lexicon with a cache, for the duration of one request.

    Args:
        postings: The cache, which is consulted first.
    """

    def __init__(
        self, lexicon: Lexicon, *, damping: float, name: str, postings: PostingsCache
    ) -> None:
        self._lexicon = lexicon
        self._source = lexicon.source
        self._damping = damping
        self._name = name
        self._postings = postings
        self.key: Hashable = self._source, lexicon.weights, damping
        """A key of everything that the scores of the terms depend on."""

    def size(self) -> int:
        """Return the number of rows."""
        return self._postings.cached_fact(
            ("size", self._source), lambda: self._read(self._lexicon.size)
        )

    def posting(self, term: str, *, up_to: int | None = None) -> Posting:
        """Return the rows that contain a term, or a phrase of several words.

        Args:
            term: Any string.
            up_to: Do not read the rows of a term that more rows contain.
        """
        if len(term) > _MAX_TERM:
            return EMPTY
        key = self.key, term
        posting = self._postings.get(key)
        if posting is None or not (
            posting.is_read or (up_to is not None and posting.documents > up_to)
        ):
            limit = up_to if up_to is not None and self.size() > up_to else None
            posting = self._read(lambda: self._lexicon.posting(term, up_to=limit))
            if self._damping != 1:
                posting = replace(posting, scores=array("d", self._evened(posting.scores)))
            self._postings.put(key, posting)
        return posting

    def vocabulary(self) -> Vocabulary:
        """Return the terms of all columns."""
        return self._postings.cached_fact(
            ("vocabulary", self._source), lambda: Vocabulary(self._read(self._lexicon.vocabulary))
        )

    def similar(self, word: str, *, up_to: int) -> list[tuple[str, Posting]]:
        """Return the terms that an unknown word may mean, with their postings."""
        found = (self.stem_posting(term, up_to=up_to) for term in self.vocabulary().similar(word))
        return [(it.term, posting) for it, posting in filter(None, found)]

    def stem_posting(self, term: SimilarTerm, *, up_to: int) -> tuple[SimilarTerm, Posting] | None:
        """Return a term of the vocabulary in a form that is searched for, with its posting.

        Returns:
            None if no form of the term was found, or if too many rows contain it.
        """
        for form in forms(term.term):
            posting = self.posting(form, up_to=up_to)
            # A stem may itself have a shorter stem; another form leads to the term.
            if posting.documents == term.documents and posting.rows:
                return replace(term, term=form), posting
        return None

    def spellings(self, term: str) -> Sequence[str]:
        """Return the words that have this stem, as rows spell them, in lower case."""
        key = "spellings", self._source, term
        return self._postings.cached_fact(
            key, lambda: self._read(lambda: self._lexicon.spellings(term))
        )

    def rows_of(self, ids: Iterable[str]) -> dict[str, int]:
        """Return the rows that have some ids; an id that no row has is left out."""
        known = self._postings.cached_fact(("rows", self._source), dict[str, int])
        ids = [*ids]
        if missing := [id_ for id_ in ids if id_ not in known]:
            known.update(self._read(lambda: self._lexicon.rows_of(missing)))
        return {id_: known[id_] for id_ in ids if id_ in known}

    def too_common(self, share: float) -> int:
        """Return the number of rows above which a term is too common."""
        return max(int(share * self.size()), FEW_ROWS)

    def hits(
        self, weighted: Sequence[tuple[Posting, float]], *, where: Filter | None, depth: int
    ) -> list[Hit]:
        """Return the best rows by the sum of their postings' scores, best first."""
        allowed = self._allowed(where) if weighted else None
        best = best_sums(weighted, depth=depth, allowed=allowed)
        ids = self._postings.ids(self._source)
        if missing := [row for row in best if row not in ids]:
            ids.update(self._read(lambda: self._lexicon.ids(missing)))
        ranked = sorted([(-score, ids[row]) for row, score in best.items() if row in ids])
        return [Hit(id_, -cost) for cost, id_ in ranked[:depth]]

    def _allowed(self, where: Filter | None) -> Set[int] | None:
        if where is None or where.rows is not None:
            return where.rows if where else None
        return self._read(lambda: self._lexicon.allowed(where))

    def _evened(self, scores: Sequence[float]) -> list[float]:
        documents = len(scores)
        # The IDF of FTS5's bm25(), which has a floor for terms in more than half of the rows.
        rarity = (self.size() - documents + 0.5) / (documents + 0.5)
        idf = math.log(rarity) if rarity > 1 else _LEAST_IDF
        return [idf * (score / idf) ** self._damping for score in scores]

    def _read(self, read: Callable[[], _T]) -> _T:
        try:
            return read()
        except Exception as error:
            # Each driver has its own errors, without a common base class below Exception.
            raise RetrievalError(self._name, error) from error
