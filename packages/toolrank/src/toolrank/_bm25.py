"""Lexical retrieval: BM25 over a full-text table, term by term."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from toolrank._full_text import FEW_ROWS, FullTextTable
from toolrank._postings import Posting, Postings, idf
from toolrank._query import Term, quoted_phrases, request_terms
from toolrank._spelling import osa_distance
from toolrank._sql import Content, identifier
from toolrank._terms import TermMatch, TermStatistics
from toolrank._weights import check_scoring, check_weight
from toolrank.errors import RetrievalError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolrank._records import Filter, Hit, Query
    from toolrank._vocabulary import SimilarTerm
    from toolrank.protocols import Connection


@dataclass(frozen=True, slots=True)
class _Found:
    """A term of the request with the rows that hold it, or rows that hold similar spellings."""

    term: Term
    posting: Posting
    similar: tuple[tuple[SimilarTerm, Posting], ...] = ()


class BM25Retriever:
    """Rank the rows of an FTS5 table by BM25.

    The formula is that of Robertson & Zaragoza (2009) with SQLite's k1 = 1.2, b = 0.75.
    Any query string is safe: its terms are quoted and OR-ed, so that a request in plain
    language finds rows that hold only some of its words. A phrase in quotation marks counts as
    a term of its own besides its words.

    A score is a sum over terms, and each term is read from the table on its own, so that it can
    be cached (`postings`): requests with the same words then read nothing.

    Args:
        connection: An open `sqlite3` or `apsw` connection.
        table: The FTS5 table.
        weights: One weight per column, in the table's order; empty weights all equally.
        content: Where hits get their ids; without it an id is the rowid in digits.
        where: The rows to search among.
        name: What to call this retriever in contributions.
        postings: A cache of what was read, valid only while the table does not change. Without
            it everything is read anew for each request.
        common: The share of rows above which a term is left out, unless the request has no
            rarer one; 1 leaves none out. A term of at most 100 rows is never left out.
        evenness: How much a term that a row holds often counts over one that it holds once: a
            term's part of the score is idf · (part / idf) ** evenness. 1 is BM25 as it is; less
            prefers rows with more of the request's terms.
        similar_weight: The weight of all terms spelt like a word that no row holds, relative to
            1 for a word that rows hold; 0 looks for none.

    Raises:
        RankingArgumentError: A table name that is not plain, a weight that is negative or
            not finite, or a share that is not from 0 to 1.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        table: str,
        weights: Sequence[float] = (),
        content: Content | None = None,
        where: Filter | None = None,
        name: str = "bm25",
        postings: Postings | None = None,
        common: float = 0.3,
        evenness: float = 1.0,
        similar_weight: float = 0.0,
    ) -> None:
        check_scoring(weights, common=common, evenness=evenness)
        check_weight(similar_weight, of="a term spelt alike", argument="similar_weight")
        self._table = partial(
            FullTextTable,
            connection,
            table=identifier(table, argument="table"),
            weights=tuple(weights),
            evenness=evenness,
            content=content,
            name=name,
        )
        self._where = where
        self._name = name
        self._postings = postings
        self._common = common
        self._similar_weight = similar_weight

    @property
    def name(self) -> str:
        """The name given at construction."""
        return self._name

    def retrieve(self, query: Query, *, depth: int) -> list[Hit]:
        """Return the best `depth` rows that hold any of the query's terms.

        Scores are BM25 scores, zero or more, higher is better.

        Raises:
            RetrievalError: The table is missing or is no FTS5 table.
        """
        table = self._open()
        weighted = [
            (posting, weight) for _, _, posting, weight in self._weighted(table, query.text)
        ]
        return table.hits(weighted, where=self._where, depth=depth)

    def statistics(self, text: str) -> tuple[TermStatistics, ...]:
        """Return the table's statistics of a request's terms, in their order.

        For a word that is split into parts, the whole is left out unless a row holds it.

        Raises:
            RetrievalError: The table is missing or is no FTS5 table.
        """
        table = self._open()
        return tuple(
            TermStatistics(
                term=found.term.text,
                documents=found.posting.documents,
                idf=idf(table.size(), found.posting.documents),
                similar=tuple(similar for similar, _ in found.similar),
            )
            for found in self._find(table, text)
            if not _is_only_whole(found)
        )

    def coverage(self, text: str, ids: Iterable[str]) -> dict[str, float]:
        """Return the share of a request that each row holds, by the IDF of the terms.

        A misspelt term counts as held where its correction is.

        Args:
            text: The request.
            ids: The rows, as hits name them.

        Returns:
            Shares in [0, 1] by id; a row that is not there has none.

        Raises:
            RetrievalError: The table is missing or is no FTS5 table.
        """
        table = self._open()
        rows = table.rows_of(ids)
        # In a table of a few rows, those that a word is in say nothing of how rare it is.
        size = max(table.size(), FEW_ROWS)
        held = dict.fromkeys(rows, 0.0)
        total = 0.0
        for found in self._find(table, text):
            if _is_only_whole(found):
                continue
            weight = idf(size, found.posting.documents)
            total += weight
            held_by: set[str] = set()
            for posting in (found.posting, *(posting for _, posting in found.similar)):
                held_by.update(id_ for id_, row in rows.items() if row in posting)
            for id_ in held_by:
                held[id_] += weight
        return {id_: min(1.0, part / total) for id_, part in held.items()} if total else held

    def matches(self, text: str, ids: Iterable[str]) -> dict[str, tuple[TermMatch, ...]]:
        """Return the terms of a request that each row holds; their scores add up to the row's.

        Args:
            text: The request.
            ids: The rows, as hits name them.

        Returns:
            By id, the terms that add most first; a row that holds none, or is not there, has none.

        Raises:
            RetrievalError: The table is missing or is no FTS5 table.
        """
        table = self._open()
        rows = table.rows_of(ids)
        matches: dict[str, list[TermMatch]] = {id_: [] for id_ in rows}
        for term, held, posting, weight in self._weighted(table, text):
            scores = dict(zip(posting.rows, posting.scores, strict=True))
            for id_, row in rows.items():
                if row in scores:
                    matches[id_].append(TermMatch(term=term, held=held, score=weight * scores[row]))
        return {
            id_: tuple(sorted(found, key=lambda match: (-match.score, match.term)))
            for id_, found in matches.items()
            if found
        }

    def corrections(self, text: str) -> dict[str, str]:
        """Return the corrections of a request's misspelt words, spelt as in the rows.

        Returns:
            The closest word of the table, by unknown word in lower case.

        Raises:
            RetrievalError: The table is missing or is no FTS5 table.
        """
        table = self._open()
        corrections: dict[str, str] = {}
        for found in self._find(table, text):
            if found.similar:
                word = found.term.text
                spellings = [
                    spelling
                    for alike, _ in found.similar
                    for spelling in table.spellings(alike.term) or [alike.term]
                ]
                corrections[word] = min(
                    spellings, key=lambda spelling: osa_distance(word, spelling, limit=len(word))
                )
        return corrections

    def _open(self) -> FullTextTable:
        return self._table(postings=self._postings or Postings())

    def _weighted(self, table: FullTextTable, text: str) -> list[tuple[str, str, Posting, float]]:
        """Return the request's terms, their postings, the matching rows, and a factor for them."""
        weighted: list[tuple[str, str, Posting, float]] = []
        for found in self._find(table, text):
            term = found.term.text
            weighted.append((term, term, found.posting, 1.0))
            total = sum(similar.similarity for similar, _ in found.similar)
            for similar, posting in found.similar:
                share = similar.similarity / max(total, 1.0)
                weighted.append((term, similar.term, posting, self._similar_weight * share))
        # After the words, so that an error is one of phrases: a table without positions has none.
        with suppress(RetrievalError):
            weighted += [
                (phrase, phrase, table.posting(phrase), 1.0) for phrase in quoted_phrases(text)
            ]
        return weighted

    def _find(self, table: FullTextTable, text: str) -> list[_Found]:
        """Return the request's terms, looked up once per request."""
        if self._postings is None:
            return self._look_up(table, text)
        key = table.key, self._common, self._similar_weight, text
        return self._postings.lately(key, lambda: self._look_up(table, text))

    def _look_up(self, table: FullTextTable, text: str) -> list[_Found]:
        """Look the request's terms up, and leave out those that are too common."""
        terms = request_terms(text)
        limit = table.too_common(self._common) if terms else 0
        postings = [table.posting(term.text, up_to=limit) for term in terms]
        if any(0 < posting.documents <= limit for posting in postings):
            found = [
                _Found(term, posting)
                for term, posting in zip(terms, postings, strict=True)
                if posting.documents <= limit
            ]
        else:
            found = [_Found(term, table.posting(term.text)) for term in terms]
        return self._with_similar(table, found, limit) if self._similar_weight else found

    def _with_similar(self, table: FullTextTable, found: list[_Found], limit: int) -> list[_Found]:
        plain = [each for each in found if each.term.is_plain]
        unknown = [each.term.text for each in plain if not each.posting.documents]
        # Most of the words unknown: another language, or nothing that is here.
        if not unknown or len(unknown) > max(3, len(plain) // 2):
            return found
        return [
            replace(each, similar=tuple(table.similar(each.term.text, up_to=limit)))
            if each.term.text in unknown
            else each
            for each in found
        ]


def _is_only_whole(found: _Found) -> bool:
    """Return whether no row holds the whole word, so that its parts stand for it."""
    return found.term.has_parts and not found.posting.documents
