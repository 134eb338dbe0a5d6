"""Lexical retrieval: BM25, term by term."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from toolrank._checks import check_scoring, check_weight
from toolrank._lexicon import FEW_ROWS, CachedLexicon
from toolrank._postings import Posting, PostingsCache, best_of, idf
from toolrank._query import Term, quoted_phrases, request_terms
from toolrank._spelling import SHORT, forms, has_letters_of, osa_distance
from toolrank._synonyms import synonyms
from toolrank.errors import RetrievalError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolrank._records import Filter, Hit, Query
    from toolrank.protocols import Lexicon


@dataclass(frozen=True, slots=True, kw_only=True)
class TermStatistics:
    """The table's statistics of a term of the request.

    Attributes:
        term: The term.
        documents: How many rows contain it; a lower bound if it is too common to search for.
        idf: log(1 + (N - n + 0.5) / (n + 0.5)) of N rows, n with the term: above zero.
    """

    term: str
    documents: int
    idf: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TermMatch:
    """A term of the request that a row contains.

    Attributes:
        term: The term as in the request.
        matched: The term that the row contains, which differs if the request's is misspelt.
        score: Its contribution to the row's score.
    """

    term: str
    matched: str
    score: float


@dataclass(frozen=True, slots=True)
class _Found:
    """A term of the request with the rows that contain it, its correction, or a synonym of it."""

    term: Term
    posting: Posting
    correction: tuple[str, Posting] | None = None
    synonym: _SynonymMatch | None = None


@dataclass(frozen=True, slots=True)
class _SynonymMatch:
    """The rows that contain a synonym of a name in the request.

    Attributes:
        name: The synonym that most rows contain.
        posting: The rows that contain any of the synonyms.
        share: A term's share of the name in the request.
        is_needed: Whether no row contains the request's name, and the synonym is not an acronym.
    """

    name: str
    posting: Posting
    share: float
    is_needed: bool


class BM25Retriever:
    """Rank rows by BM25.

    The formula is that of Robertson & Zaragoza (2009) with SQLite's k1 = 1.2, b = 0.75.
    Any query string is safe: its terms are quoted and OR-ed, so that a request in plain
    language finds rows with only some of its words. A phrase in quotation marks counts as
    a term, in addition to its words.

    A score is a sum over terms, and each term is read on its own, so that it can
    be cached (`postings`): requests with the same words then read nothing.

    Args:
        lexicon: Where the words are, such as a `FullTextTable`.
        where: The rows to search among.
        name: Its name in contributions.
        postings: A cache of what was read, valid only while the lexicon does not change. Without
            it, everything is read again for each request.
        max_df: A term that more than this share of the rows contain is left out, unless the
            request has no rarer one; 1 leaves none out. A term in at most 100 rows is never left
            out.
        damping: How much repetitions of a term in a row count: a term's part of the score is
            idf · (part / idf) ** damping. 1 is plain BM25; smaller values prefer rows with more
            of the request's terms.
        correction_weight: The weight of the corrections of misspelt words, where other words have
            the weight 1; 0 does not correct any.
        synonym_weight: The weight of synonyms of names in the request, such as "pull request" for
            "PR" or "sign in" for "login"; 0 does not search for them.

    Raises:
        RankingArgumentError: A weight that is negative or not finite, or a share that is not from
            0 to 1.
        RetrievalError: (in methods) The lexicon cannot be read.
    """

    def __init__(
        self,
        lexicon: Lexicon,
        *,
        where: Filter | None = None,
        name: str = "bm25",
        postings: PostingsCache | None = None,
        max_df: float = 0.3,
        damping: float = 1.0,
        correction_weight: float = 0.0,
        synonym_weight: float = 0.0,
    ) -> None:
        check_scoring(max_df=max_df, damping=damping)
        check_weight(correction_weight, of="a correction", argument="correction_weight")
        check_weight(synonym_weight, of="another name", argument="synonym_weight")
        self._lexicon = lexicon
        self._damping = damping
        self._where = where
        self._name = name
        self._postings = postings
        self._max_df = max_df
        self._correction_weight = correction_weight
        self._synonym_weight = synonym_weight

    @property
    def name(self) -> str:
        """The name given at construction."""
        return self._name

    def retrieve(self, query: Query, *, depth: int) -> list[Hit]:
        """Return the best `depth` rows that contain any of the query's terms.

        Scores are BM25 scores, zero or more, higher is better.
        """
        reading = self._open()
        weighted = [
            (posting, weight) for _, _, posting, weight in self._weighted(reading, query.text)
        ]
        return reading.hits(weighted, where=self._where, depth=depth)

    def statistics(self, text: str) -> tuple[TermStatistics, ...]:
        """Return the statistics of a request's terms, in their order.

        For a word that is split into parts, the whole is left out unless a row contains it.
        """
        reading = self._open()
        return tuple(
            TermStatistics(
                term=found.term.text,
                documents=found.posting.documents,
                idf=idf(reading.size(), found.posting.documents),
            )
            for found in self._find(reading, text)
            if not _is_only_whole(found)
        )

    def coverage(self, text: str, ids: Iterable[str], *, unknown: float = 0.0) -> dict[str, float]:
        """Return the share of a request's terms that each row contains, weighted by IDF.

        A misspelt term counts as contained if its correction is, and a name if a synonym is.

        Args:
            text: The request.
            ids: The rows, as hits name them.
            unknown: Credit for a term that no row contains, from 0 to 1, because such a term does
                not show which row is meant.

        Returns:
            Shares in [0, 1] by id, without rows that do not exist.
        """
        reading = self._open()
        rows = reading.rows_of(ids)
        # In a table of a few rows, the number of those with a word says nothing about how rare it
        # is.
        size = max(reading.size(), FEW_ROWS)
        held = dict.fromkeys(rows, 0.0)
        total = 0.0
        for found in self._find(reading, text):
            if _is_only_whole(found):
                continue
            weight = idf(size, found.posting.documents)
            total += weight
            if not found.posting.documents and not found.correction and not found.synonym:
                for id_ in held:
                    held[id_] += unknown * weight
            held_by: set[str] = set()
            others = [] if found.correction is None else [found.correction[1]]
            if found.synonym is not None:
                others.append(found.synonym.posting)
            for posting in (found.posting, *others):
                held_by.update(id_ for id_, row in rows.items() if row in posting)
            for id_ in held_by:
                held[id_] += weight
        return {id_: min(1.0, part / total) for id_, part in held.items()} if total else held

    def matches(self, text: str, ids: Iterable[str]) -> dict[str, tuple[TermMatch, ...]]:
        """Return the terms of a request that each row contains; their scores add up to the row's.

        The terms that add most come first. Rows without any, and missing ones, are left out.
        """
        reading = self._open()
        rows = reading.rows_of(ids)
        matches: dict[str, list[TermMatch]] = {id_: [] for id_ in rows}
        for term, matched, posting, weight in self._weighted(reading, text):
            scores = dict(zip(posting.rows, posting.scores, strict=True))
            for id_, row in rows.items():
                if row in scores:
                    matches[id_].append(
                        TermMatch(term=term, matched=matched, score=weight * scores[row])
                    )
        return {
            id_: tuple(sorted(found, key=lambda match: (-match.score, match.term)))
            for id_, found in matches.items()
            if found
        }

    def corrections(self, text: str) -> dict[str, str]:
        """Return the closest word of the rows for each misspelt word of a request.

        A name that no row contains, such as "PR", is followed by a synonym that rows contain, in
        brackets.
        """
        reading = self._open()
        corrections: dict[str, str] = {}
        for found in self._find(reading, text):
            if found.synonym is not None and found.synonym.is_needed:
                corrections[found.term.text] = f"{found.term.text} ({found.synonym.name})"
            elif found.correction is not None:
                corrections[found.term.text] = found.correction[0]
        return corrections

    def _open(self) -> CachedLexicon:
        return CachedLexicon(
            self._lexicon,
            damping=self._damping,
            name=self._name,
            postings=self._postings or PostingsCache(),
        )

    def _weighted(self, reading: CachedLexicon, text: str) -> list[tuple[str, str, Posting, float]]:
        """Return the request's terms, their postings, the matching rows, and a factor for them."""
        weighted: list[tuple[str, str, Posting, float]] = []
        for found in self._find(reading, text):
            term = found.term.text
            weighted.append((term, term, found.posting, 1.0))
            if found.correction is not None:
                weighted.append((term, *found.correction, self._correction_weight))
            if found.synonym is not None:
                named = found.synonym
                weight = self._synonym_weight * named.share
                weighted.append((term, named.name, named.posting, weight))
        # After the words, so that an error can only come from the phrases: an index without
        # positions cannot match them.
        with suppress(RetrievalError):
            weighted += [
                (phrase, phrase, reading.posting(phrase), 1.0) for phrase in quoted_phrases(text)
            ]
        return weighted

    def _find(self, reading: CachedLexicon, text: str) -> list[_Found]:
        """Return the request's terms, looked up once per request."""
        if self._postings is None:
            return self._look_up(reading, text)
        key = reading.key, self._max_df, self._correction_weight, self._synonym_weight, text
        return self._postings.recent(key, lambda: self._look_up(reading, text))

    def _look_up(self, reading: CachedLexicon, text: str) -> list[_Found]:
        """Look up the request's terms, and skip those that are too common."""
        terms = request_terms(text)
        limit = reading.too_common(self._max_df) if terms else 0
        postings = [reading.posting(term.text, up_to=limit) for term in terms]
        if any(0 < posting.documents <= limit for posting in postings):
            found = [
                _Found(term, posting)
                for term, posting in zip(terms, postings, strict=True)
                if posting.documents <= limit
            ]
        else:
            found = [_Found(term, reading.posting(term.text)) for term in terms]
        if self._synonym_weight:
            found = self._with_synonyms(reading, found, text, limit)
        return self._corrected(reading, found, limit) if self._correction_weight else found

    def _with_synonyms(
        self, reading: CachedLexicon, found: list[_Found], text: str, limit: int
    ) -> list[_Found]:
        for synonym in synonyms(text):
            read = {name: reading.posting(name, up_to=limit) for name in synonym.others}
            others = {name: posting for name, posting in read.items() if posting.rows}
            if not others:
                continue
            name = max(others, key=lambda name: others[name].documents)
            is_missing = not reading.posting(synonym.matched, up_to=limit).documents
            match = _SynonymMatch(
                name=name,
                posting=best_of([(it, 1.0) for it in others.values()], size=reading.size()),
                share=1 / max(len(synonym.terms), 1),
                is_needed=is_missing and len(name) > SHORT,
            )
            found = [
                replace(each, synonym=match) if each.term.text in synonym.terms else each
                for each in found
            ]
        return found

    def _corrected(self, reading: CachedLexicon, found: list[_Found], limit: int) -> list[_Found]:
        """Add the corrections of words that no row contains."""
        plain = [each for each in found if each.term.is_plain]
        unknown = {
            each.term.text for each in plain if not each.posting.documents and not each.synonym
        }
        # Most words are unknown: the request is in another language, or about something else.
        if not unknown or len(unknown) > max(3, len(plain) // 2):
            return found
        return [
            replace(each, correction=self._correction(reading, each.term.text, found, limit))
            if each.term.text in unknown
            else each
            for each in found
        ]

    def _correction(
        self, reading: CachedLexicon, word: str, found: Sequence[_Found], limit: int
    ) -> tuple[str, Posting] | None:
        """Return the likely correction of an unknown word as rows spell it, and its rows.

        A short word, such as "saml", may be an acronym or a product that is one edit away from some
        term. A term with other letters only counts as its correction if a row contains it together
        with another term of the request.
        """
        spellings: dict[str, Posting] = {}
        for term, posting in reading.similar(word, up_to=limit):
            is_clear = len(word) > SHORT or any(
                has_letters_of(word, form) for form in (*forms(term), f"{term}d", f"{term}ed")
            )
            if is_clear or any(not {*it.posting.rows}.isdisjoint(posting.rows) for it in found):
                for spelling in reading.spellings(term) or [term]:
                    spellings.setdefault(spelling, posting)
        return min(
            spellings.items(),
            key=lambda each: osa_distance(word, each[0], limit=len(word)),
            default=None,
        )


def _is_only_whole(found: _Found) -> bool:
    """Return whether no row contains the whole word, so that its parts are searched for instead."""
    return found.term.has_parts and not found.posting.documents
