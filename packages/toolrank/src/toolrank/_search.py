"""The whole search: candidates, fusion, equal rows, confidence, with the measured constants."""

from __future__ import annotations

import re
import unicodedata
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Literal, NamedTuple

from toolrank._arguments import check_weight
from toolrank._confidence import Calibration, Evidence, confidence
from toolrank._equal import ALONE, EqualRows, Equals
from toolrank._fusion import linear_fusion
from toolrank._names import name_share, split_words
from toolrank._query import Query
from toolrank._ranking import Ranker, Ranking
from toolrank._records import UNITS
from toolrank.errors import RankingArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from toolrank._ranking import RankedHit
    from toolrank._records import Contribution, Explanation
    from toolrank.protocols import Candidates, Fusion

# How many distinct rows are ranked for any smaller limit, so that a longer answer begins with the
# shorter one.
_RANKED = 50
# Spare candidates keep the list full after equal rows are merged.
_SPARE = 5
_WORD = r"[^\W_]+"
_CHANNELS = ("bm25", "fuzzy", "vector")
_WEIGHTS: Mapping[str, float] = {"bm25": 1.0, "vector": 1.0}
_BY_STRENGTH: Fusion = partial(linear_fusion, units=UNITS)


class SearchResult(NamedTuple):
    """A row that a search found.

    Attributes:
        id: The row's id.
        score: In [0, 1], decreasing. That of the first is its confidence; the others are lower in
            proportion to how well they fit.
        confidence: How likely the row answers the request, or the subquery that it answers best.
        match: How it was found: "exact" if the request names it, otherwise by its "words", its
            "meaning", "both", or "fuzzy" (similar spelling).
        duplicates: Nearly equal rows of its group that it represents.
        also: Equal rows of other groups.
        contributions: What each channel that lists the row contributed.
        explanation: Each step of its score.
    """

    id: str
    score: float
    confidence: float
    match: Literal["exact", "words", "meaning", "both", "fuzzy"]
    duplicates: tuple[str, ...]
    also: tuple[str, ...]
    contributions: tuple[Contribution, ...]
    explanation: Explanation


class RankExplanation(NamedTuple):
    """A row's place in the answer to a request.

    Attributes:
        ranked: How many were ranked.
        rank: Its place, from 1, or None if it is not among them.
        same: The place and the id of an equal row that represents it, if one does.
        results: Its own result, if it has one, followed by the one that it is compared with: the
            last one returned, or the one before it.
    """

    ranked: int
    rank: int | None = None
    same: tuple[int, str] | None = None
    results: tuple[SearchResult, ...] = ()


class HybridSearch:
    """Search rows by words, vectors and names, and judge how likely each answers.

    This is what pytools-hybrid searches its tools with: spelling is corrected, a compound request
    is also searched subquery by subquery, scores are fused by strength, a group's best row lifts
    the others, verbs and past use count, equal rows are merged, and each result has a confidence.
    All constants were chosen on sets of tools (docs/decisions/0008 in the repository).

    Args:
        candidates: Where rows come from, such as `Tables`; None if each `run` brings them.
        embed: Returns a vector for each of some texts; None searches by words alone.
        group: Returns a row's group by its id, such as the server of a tool; None for no groups.
        name: Returns a row's name by its id; without names, verbs are ignored and equal rows kept.
        label: Returns the words by which requests mention a group, as one text.
        split: Splits a name or a text into lower-case words.
        fuse: Combines the channels' rankings, by default `linear_fusion` by strength.
        subquery_share: The weight of subqueries, from 0 (not searched) to 1.
        group_weight: How much the best of a group lifts the others.
        calibration: What the similarities of the model behind `embed` mean.

    Raises:
        RankingArgumentError: A share or a weight that is out of range.
    """

    def __init__(
        self,
        candidates: Candidates | None = None,
        *,
        embed: Callable[[Sequence[str]], Sequence[Sequence[float]]] | None = None,
        group: Callable[[str], str] | None = None,
        name: Callable[[str], str] | None = None,
        label: Callable[[str], str] = str,
        split: Callable[[str], Sequence[str]] = split_words,
        fuse: Fusion = _BY_STRENGTH,
        subquery_share: float = 0.3,
        group_weight: float = 0.3,
        calibration: Calibration = Calibration(),  # noqa: B008 - it is immutable
    ) -> None:
        self._candidates = candidates
        self._embed = embed
        self._name = name
        self._ranker = Ranker(
            fuse=fuse,
            subquery_share=subquery_share,
            group=group,
            group_weight=group_weight,
            name=name,
        )
        self._calibration = calibration
        self._equal = None if name is None else EqualRows(group or _no_group, name, label, split)

    def search(
        self, text: str, *, limit: int = 10, min_confidence: float = 0.0
    ) -> list[SearchResult]:
        """Return the rows that fit a request, best first.

        Args:
            text: The request; any string is one.
            limit: How many at most.
            min_confidence: The least confidence of a result; with `RECOMMENDED_CONFIDENCE`, most
                requests that no row answers find nothing.

        Raises:
            RankingArgumentError: A limit below 1, or there are no candidates to search.
            RetrievalError: A table is missing or broken.
        """
        if self._candidates is None:
            raise RankingArgumentError("candidates", "is needed to search")
        if self._embed is None:
            query = Query.of(text)
        else:
            query = Query.of(self.correct_spelling(self._candidates.corrections(text), text))
            query = query.with_vectors(self._embed(query.texts))._replace(text=text)
        found = self.run(self._candidates, query, limit=limit, min_confidence=min_confidence)
        return list(found.results)

    @staticmethod
    def correct_spelling(
        corrections: Mapping[str, str], text: str, *, known: Callable[[str], bool] = lambda _: False
    ) -> str:
        """Return a request as embedding models understand it best.

        Misspelt words, but for those that the model knows, are in the rows' spelling, names that no
        row has are followed by the rows' own, and compatibility characters are plain ones.

        Args:
            corrections: What `Candidates.corrections` returns for the text.
            text: The request.
            known: Whether the model knows a word.
        """
        wanted = {
            word: right
            for word, right in corrections.items()
            if right.startswith(f"{word} ") or not known(word)
        }
        if wanted:
            text = re.sub(_WORD, lambda word: wanted.get(word[0].lower(), word[0]), text)
        return text if text.isascii() else unicodedata.normalize("NFKC", text)

    def run(
        self,
        candidates: Candidates,
        query: Query,
        *,
        limit: int = 10,
        min_confidence: float = 0.0,
        weights: Mapping[str, float] = _WEIGHTS,
        usage: Mapping[str, tuple[int, int]] | None = None,
        deprecated: Mapping[str, Collection[str]] | None = None,
        calibration: Calibration | None = None,
    ) -> SearchRun:
        """Search with candidates and vectors of the caller's own.

        Args:
            candidates: Where rows come from.
            query: The request, with its vector and its subqueries.
            limit: How many results at most.
            min_confidence: The least confidence of a result.
            weights: The channels to search, with their weights: "bm25", "vector", "fuzzy".
            usage: Past successes and failures by id, which change a score by a tenth at most.
            deprecated: Deprecated rows, each with the ids of those that replace it: it keeps three
                quarters of its score, at most that of a replacement, unless the request has its
                name as written.
            calibration: What similarities mean; by default that of the search.

        Returns:
            The `results`, a tuple; `explain_rank(id)` says where a row stands.

        Raises:
            RankingArgumentError: A limit below 1, or a weight that is negative or not finite.
            RetrievalError: A table is missing or broken.
        """
        if limit < 1:
            raise RankingArgumentError("limit", f"{limit} is below 1")
        for channel, weight in weights.items():
            check_weight(weight, of=repr(channel), argument="weights")
        channels = {
            name: weights[name]
            for name in _CHANNELS
            if name in weights and (name != "vector" or query.vector is not None)
        }
        named = {hit.id: hit.score for hit in candidates.named(query.text)}
        return SearchRun(
            candidates=candidates,
            query=query,
            channels=frozenset(channels),
            calibration=calibration or self._calibration,
            name=self._name,
            equal=self._equal,
            limit=limit,
            min_confidence=min_confidence,
            depth=max(limit, _RANKED) + _SPARE + len(named),
            rank=partial(
                self._ranker.rank,
                candidates,
                query,
                {name: weight for name, weight in channels.items() if weight},
                named=named,
                usage=usage or {},
                deprecated=deprecated or {},
            ),
        )


class SearchRun:
    """One search.

    Attributes:
        results: The best rows, which do not depend on the limit.
    """

    def __init__(
        self,
        *,
        candidates: Candidates,
        query: Query,
        channels: Collection[str],
        calibration: Calibration,
        name: Callable[[str], str] | None,
        equal: EqualRows | None,
        limit: int,
        min_confidence: float,
        depth: int,
        rank: Callable[..., Ranking],
    ) -> None:
        self._candidates = candidates
        self._query = query
        self._channels = channels
        self._calibration = calibration
        self._name = name
        self._equal = equal
        self._limit = limit
        self._depth = depth
        self._rank = rank
        sure = (it for it in self._results() if it.confidence >= min_confidence)
        self.results = tuple(islice(sure, limit))

    def _results(self) -> Iterator[SearchResult]:
        unit: float | None = None
        least = 1.0
        seen: set[str] = set()
        count, at_once, depth = 0, self._limit, self._depth
        most = max(self._limit, _RANKED)
        while True:
            ranking = self._rank(depth=depth, limit=depth)
            ids = ranking.ids[:depth]
            rest = self._distinct([id_ for id_ in ids if id_ not in seen])
            while some := dict(islice(rest, at_once)):
                count += len(some)
                at_once *= 2
                for hit, sureness in self._judged(ranking, list(some)):
                    if unit is None:
                        # The best fused score is 1 for every request: alone it only orders an
                        # answer.
                        unit = sureness / hit.score if hit.score else 0.0
                    # Another ranking, of more candidates, may have other scores.
                    least = min(least, hit.score * unit)
                    yield _result(hit, some[hit.id], least, sureness)
            if count >= most or len(ids) < depth:
                return
            seen.update(ids)
            depth *= 4

    def explain_rank(self, id_: str) -> RankExplanation:
        """Return where a row stands among all that were ranked."""
        shown = self.results
        ranking, depth = self._rank(depth=self._depth, limit=None), self._depth
        ids = ranking.ids
        for at, each in enumerate(shown):
            if each.id == id_:
                results = (each, *shown[at - 1 : at])
                return RankExplanation(ranked=len(ids), rank=at + 1, results=results)
        last = shown[-1:]
        if id_ not in ids:
            return RankExplanation(ranked=len(ids), results=last)
        distinct = dict(self._distinct(ids[:depth] if id_ in ids[:depth] else ids))
        if id_ not in distinct:
            numbered = enumerate(distinct.items(), start=1)
            same = next((at, it) for at, (it, equals) in numbered if id_ in equals.ids)
            return RankExplanation(ranked=len(ids), same=same)
        kept = [*distinct]
        # All scores are relative to the confidence of the first.
        judged = self._judged(ranking, list(dict.fromkeys((kept[0], id_))))
        own: tuple[SearchResult, ...] = ()
        if judged and judged[-1][0].id == id_:
            (first, most), (hit, sureness) = judged[0], judged[-1]
            unit = most / first.score if first.score else 0.0
            own = (_result(hit, ALONE, hit.score * unit, sureness),)
        rank = max(kept.index(id_), len(shown)) + 1
        return RankExplanation(ranked=len(ids), rank=rank, results=(*own, *last))

    def _distinct(self, ids: Sequence[str]) -> Iterator[tuple[str, Equals]]:
        if self._equal is None:
            return ((id_, ALONE) for id_ in ids)
        return self._equal.distinct(ids, self._candidates, self._query.text)

    def _judged(self, ranking: Ranking, ids: Sequence[str]) -> list[tuple[RankedHit, float]]:
        """Return the hits of some ids that are rows, each with its confidence."""
        rows = self._candidates.existing(ids)
        hits = ranking.hits([id_ for id_ in ids if id_ in rows])
        of_subqueries: list[list[str]] = [[] for _ in self._query.subqueries]
        for hit in hits:
            if hit.explanation.subquery is not None:
                of_subqueries[hit.explanation.subquery].append(hit.id)
        queries = (self._query, *self._query.subqueries)
        words = [
            self._words(each, its)
            for each, its in zip(queries, ([hit.id for hit in hits], *of_subqueries), strict=True)
        ]
        return [(hit, self._confidence(hit, words)) for hit in hits]

    def _words(self, query: Query, ids: Sequence[str]) -> _Words:
        unknown = self._calibration.unknown if "vector" in self._channels else 0.0
        has_words, rows = "bm25" in self._channels, self._candidates
        return _Words(
            text=query.text,
            terms=len(query.terms),
            coverage=rows.coverage(query.text, ids, unknown=unknown) if has_words else None,
            scale=rows.scale(query.text) if "fuzzy" in self._channels else None,
        )

    def _confidence(self, hit: RankedHit, words: Sequence[_Words]) -> float:
        explanation = hit.explanation
        has_meaning = "vector" in self._channels and "vector" not in explanation.missing
        name = "" if has_meaning or self._name is None else self._name(hit.id)
        given = [(hit.contributions, words[0])]
        if explanation.subquery is not None:
            given.append((hit.subquery_contributions, words[1 + explanation.subquery]))
        return max(
            confidence(
                Evidence(
                    coverage=None if its.coverage is None else its.coverage.get(hit.id, 0.0),
                    terms=its.terms,
                    # Only words count, and they are cheap.
                    name_coverage=name_share(its.text, name) if name else 0.0,
                    strength=None if its.scale is None else _strength(contributions, its.scale),
                    contrast=_contrast(contributions) if has_meaning else None,
                    is_exact=explanation.pinned,
                ),
                calibration=self._calibration,
            )
            for contributions, its in given
        )


class _Words(NamedTuple):
    """A request or a subquery, with its words' evidence about the rows found.

    Attributes:
        text: The text of it.
        terms: How many terms it has.
        coverage: The share of the terms that a row has, by id; None if words were not searched.
        scale: The divisor of spelling scores; None if spelling was not searched.
    """

    text: str
    terms: int
    coverage: Mapping[str, float] | None
    scale: float | None


def _no_group(_: str) -> str:
    return ""


def _result(hit: RankedHit, equals: Equals, score: float, sureness: float) -> SearchResult:
    return SearchResult(
        id=hit.id,
        score=score,
        confidence=sureness,
        match=_match(hit),
        duplicates=equals.duplicates,
        also=equals.also,
        contributions=hit.contributions,
        explanation=hit.explanation,
    )


def _match(hit: RankedHit) -> Literal["exact", "words", "meaning", "both", "fuzzy"]:
    """Return how a hit was found, by the request or by the subquery that found it."""
    if hit.explanation.pinned:
        return "exact"
    given = hit.contributions or hit.subquery_contributions
    by = {each.retriever for each in given}
    if "fuzzy" in by:
        return "fuzzy"
    if "bm25" not in by:
        return "meaning"
    # The vector channel lists every row, near or far.
    is_near = any(it.retriever == "vector" and it.score > it.background for it in given)
    return "both" if is_near else "words"


def _strength(contributions: Sequence[Contribution], scale: float) -> float:
    found = (each.score for each in contributions if each.retriever == "fuzzy")
    return next(found, 0.0) / scale if scale else 0.0


def _contrast(contributions: Sequence[Contribution]) -> float:
    # Among two or three rows, rivals may be negative, which counts as zero.
    found = (it.score - max(it.rivals, 0.0) for it in contributions if it.retriever == "vector")
    return next(found, 0.0)
