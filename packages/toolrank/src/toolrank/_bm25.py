"""Lexical retrieval: BM25, term by term, with corrections and synonyms."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from toolrank._arguments import check_weight
from toolrank._full_text import FEW_ROWS, FullTextTable
from toolrank._postings import Posting, best_of, idf
from toolrank._query import Term, quoted_phrases, request_terms
from toolrank._spelling import SHORT, forms, has_letters_of, osa_distance
from toolrank._synonyms import synonyms
from toolrank.errors import RetrievalError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolrank._records import Hit


class TermMatch(NamedTuple):
    """A term of the request that a row contains.

    Attributes:
        term: The term as in the request.
        matched: The term that the row contains, which differs if the request's is misspelt.
        score: Its contribution to the row's score.
    """

    term: str
    matched: str
    score: float


class _Synonym(NamedTuple):
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


class _Found(NamedTuple):
    """A term of the request with the rows that contain it, its correction, or a synonym of it."""

    term: Term
    posting: Posting
    correction: tuple[str, Posting] | None = None
    synonym: _Synonym | None = None

    @property
    def is_only_whole(self) -> bool:
        """Whether no row contains the whole word, so that its parts are searched for instead."""
        return self.term.has_parts and not self.posting.documents


class BM25Retriever:
    """Rank rows by BM25.

    The formula is that of Robertson & Zaragoza (2009) with SQLite's k1 = 1.2, b = 0.75.
    Any query string is safe: its terms are quoted and OR-ed, so that a request in plain
    language finds rows with only some of its words. A phrase in quotation marks counts as
    a term, in addition to its words. Terms that are too common are left out, unless the request
    has no rarer one.

    Args:
        table: Where the words are.
        correction_weight: The weight of the corrections of misspelt words, where other words have
            the weight 1; 0 does not correct any.
        synonym_weight: The weight of synonyms of names in the request, such as "pull request" for
            "PR" or "sign in" for "login"; 0 does not search for them.

    Raises:
        RankingArgumentError: A weight that is negative or not finite.
        RetrievalError: (in methods) The table cannot be read.
    """

    def __init__(
        self, table: FullTextTable, *, correction_weight: float = 0.5, synonym_weight: float = 0.7
    ) -> None:
        check_weight(correction_weight, of="a correction", argument="correction_weight")
        check_weight(synonym_weight, of="another name", argument="synonym_weight")
        self._table = table
        self._correction_weight = correction_weight
        self._synonym_weight = synonym_weight

    def retrieve(self, text: str, *, depth: int) -> list[Hit]:
        """Return the best `depth` rows that contain any of a request's terms.

        Scores are BM25 scores, zero or more, higher is better.
        """
        weighted = [(posting, weight) for _, _, posting, weight in self._weighted(text)]
        return self._table.hits(weighted, depth=depth)

    def scale(self, text: str) -> float:
        """Return the divisor that makes scores comparable between requests and tables.

        A score grows with the number of the request's terms and with the IDF that a rare term has
        in the table: the divisor is √terms · log(1 + rows), or 0 without terms.
        """
        terms = sum(not found.is_only_whole for found in self._find(text))
        return math.sqrt(terms) * math.log(1 + self._table.size())

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
        rows = self._table.rows_of(ids)
        # In a table of a few rows, the number of those with a word says nothing about how rare it
        # is.
        size = max(self._table.size(), FEW_ROWS)
        covered = dict.fromkeys(rows, 0.0)
        total = 0.0
        for found in self._find(text):
            if found.is_only_whole:
                continue
            weight = idf(size, found.posting.documents)
            total += weight
            postings = [found.posting]
            if found.correction is not None:
                postings.append(found.correction[1])
            if found.synonym is not None:
                postings.append(found.synonym.posting)
            credit = unknown * weight if len(postings) == 1 and not found.posting.documents else 0.0
            for id_, row in rows.items():
                covered[id_] += weight if any(each.has(row) for each in postings) else credit
        return {id_: min(1.0, part / total) for id_, part in covered.items()} if total else covered

    def matches(self, text: str, ids: Iterable[str]) -> dict[str, tuple[TermMatch, ...]]:
        """Return the terms of a request that each row contains; their scores add up to the row's.

        The terms that add most come first. Rows without any, and missing ones, are left out.
        """
        rows = self._table.rows_of(ids)
        matches: dict[str, list[TermMatch]] = {id_: [] for id_ in rows}
        for term, matched, posting, weight in self._weighted(text):
            scores = dict(zip(posting.rows, posting.scores, strict=True))
            for id_, row in rows.items():
                if row in scores:
                    matches[id_].append(TermMatch(term, matched, weight * scores[row]))
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
        corrections: dict[str, str] = {}
        for found in self._find(text):
            if found.synonym is not None and found.synonym.is_needed:
                corrections[found.term.text] = f"{found.term.text} ({found.synonym.name})"
            elif found.correction is not None:
                corrections[found.term.text] = found.correction[0]
        return corrections

    def _weighted(self, text: str) -> list[tuple[str, str, Posting, float]]:
        """Return the request's terms, their postings, the matching rows, and a factor for them."""
        weighted: list[tuple[str, str, Posting, float]] = []
        for found in self._find(text):
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
                (phrase, phrase, self._table.posting(phrase), 1.0)
                for phrase in quoted_phrases(text)
            ]
        return weighted

    def _find(self, text: str) -> list[_Found]:
        """Return the request's terms, looked up once per request."""
        key = self._table.key, self._correction_weight, self._synonym_weight, text
        return self._table.postings.recent(key, lambda: self._look_up(text))

    def _look_up(self, text: str) -> list[_Found]:
        """Look up the request's terms, and skip those that are too common."""
        table, terms = self._table, request_terms(text)
        limit = table.max_documents() if terms else 0
        found = [_Found(term, table.posting(term.text, up_to=limit)) for term in terms]
        if any(0 < each.posting.documents <= limit for each in found):
            found = [each for each in found if each.posting.documents <= limit]
        else:
            found = [_Found(term, table.posting(term.text)) for term in terms]
        if self._synonym_weight:
            found = self._with_synonyms(found, text, limit)
        return self._corrected(found, limit) if self._correction_weight else found

    def _with_synonyms(self, found: list[_Found], text: str, limit: int) -> list[_Found]:
        table = self._table
        for synonym in synonyms(text):
            read = {name: table.posting(name, up_to=limit) for name in synonym.others}
            others = {name: posting for name, posting in read.items() if posting.rows}
            if not others:
                continue
            name = max(others, key=lambda name: others[name].documents)
            is_missing = not table.posting(synonym.matched, up_to=limit).documents
            match = _Synonym(
                name=name,
                posting=best_of([(it, 1.0) for it in others.values()], size=table.size()),
                share=1 / max(len(synonym.terms), 1),
                is_needed=is_missing and len(name) > SHORT,
            )
            found = [
                each._replace(synonym=match) if each.term.text in synonym.terms else each
                for each in found
            ]
        return found

    def _corrected(self, found: list[_Found], limit: int) -> list[_Found]:
        """Add the corrections of words that no row contains."""
        plain = [each for each in found if each.term.is_plain]
        unknown = {
            each.term.text for each in plain if not each.posting.documents and not each.synonym
        }
        # Most words are unknown: the request is in another language, or about something else.
        if not unknown or len(unknown) > max(3, len(plain) // 2):
            return found
        return [
            each._replace(correction=self._correction(each.term.text, found, limit))
            if each.term.text in unknown
            else each
            for each in found
        ]

    def _correction(
        self, word: str, found: Sequence[_Found], limit: int
    ) -> tuple[str, Posting] | None:
        """Return the likely correction of an unknown word as rows spell it, and its rows.

        A short word, such as "saml", may be an acronym or a product that is one edit away from some
        term. A term with other letters only counts as its correction if a row contains it together
        with another term of the request.
        """
        spellings: dict[str, Posting] = {}
        for term, posting in self._table.similar(word, up_to=limit):
            is_clear = len(word) > SHORT or any(
                has_letters_of(word, form) for form in (*forms(term), f"{term}d", f"{term}ed")
            )
            if is_clear or any(not {*it.posting.rows}.isdisjoint(posting.rows) for it in found):
                for spelling in self._table.spellings(term) or [term]:
                    spellings.setdefault(spelling, posting)
        return min(
            spellings.items(),
            key=lambda each: osa_distance(word, each[0], limit=len(word)),
            default=None,
        )
