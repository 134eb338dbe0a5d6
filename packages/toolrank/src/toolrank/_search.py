"""The whole search: candidates, fusion, equal rows, confidence, with the measured constants."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

from toolrank._confidence import Calibration, Evidence, confidence
from toolrank._equal import ALONE, EqualRows, Equals
from toolrank._names import name_share, split_words
from toolrank._query import query_terms, split_request
from toolrank._ranker import Channel, HybridRanker, Ranking
from toolrank._records import Query
from toolrank.errors import RankingArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence, Set

    from toolrank._records import Contribution, Hit, RankedHit
    from toolrank.protocols import Candidates, MakeRanker, Ranker

    Adjust = Callable[[Ranking, Sequence[str], Mapping[str, float]], Ranking]

# How many distinct rows are ranked for any smaller limit, so that a longer answer begins with the
# shorter one.
_RANKED = 50
# Spare candidates keep the list full after equal rows are merged.
_SPARE = 5
# How many candidates a channel is asked for, at least.
_DEPTH = 100
_WORD = re.compile(r"[^\W_]+")
_WEIGHTS: Mapping[str, float] = MappingProxyType({"bm25": 1.0, "vector": 1.0})
_NO_USAGE: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """A row that a search found.

    Attributes:
        id: The row's id.
        score: In [0, 1], decreasing. That of the first is its confidence; the others are lower in
            proportion to how well they fit.
        confidence: How likely the row answers the request, or the part that it answers best.
        match: How it was found: "exact" if the request names it, otherwise by its "words", its
            "meaning", "both", or "fuzzy" (similar spelling).
        duplicates: Nearly equal rows of its group that it represents.
        also: Equal rows of other groups.
        hit: How the score came about.
    """

    id: str
    score: float
    confidence: float
    match: Literal["exact", "words", "meaning", "both", "fuzzy"]
    duplicates: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    hit: RankedHit


class RankExplanation(NamedTuple):
    """A row's place in the answer to a request.

    Attributes:
        ranked: How many were ranked.
        rank: Its place, from 1, or None if it is not among them.
        same: The place and the id of an equal row that represents it, if one does.
    """

    ranked: int
    rank: int | None = None
    same: tuple[int, str] | None = None


class HybridSearch:
    """Search rows by words, vectors and names, and judge how likely each answers.

    This is what pytools-hybrid searches its tools with: spelling is corrected, a compound request
    is also searched part by part, scores are fused by strength, a group's best row lifts the
    others, verbs and past use count, equal rows are merged, and each result has a confidence. All
    constants were chosen on sets of tools (docs/decisions/0008 in the repository).

    Args:
        candidates: Where rows come from, such as `Tables`.
        embed: Returns a vector for each of some texts; None searches by words alone.
        group: Returns a row's group by its id, such as the server of a tool; None for no groups.
        name: Returns a row's name by its id; without names, verbs are ignored and equal rows kept.
        label: Returns the words by which requests mention a group, as one text.
        split: Splits a name or a text into lower-case words.
        ranker: Makes the ranker of each search from its channels and the factors of past use.
        calibration: What the similarities of the model behind `embed` mean.
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
        ranker: MakeRanker | None = None,
        calibration: Calibration = Calibration(),  # noqa: B008 - it is immutable
    ) -> None:
        self._candidates = candidates
        self._embed = embed
        self._name = name
        self._ranker = ranker or partial(_ranker, group=group, name=name)
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
        if limit < 1:
            raise RankingArgumentError("limit", f"{limit} is below 1")
        found = self.run(self._candidates, self._query(self._candidates, text), limit=limit)
        sure = (it for it in found.results() if it.confidence >= min_confidence)
        return list(islice(sure, limit))

    def _query(self, candidates: Candidates, text: str) -> Query:
        if self._embed is None:
            return Query(text=text, parts=tuple(Query(text=part) for part in split_request(text)))
        spelled = self.correct_spelling(candidates.corrections(text), text)
        parts = split_request(spelled)
        vector, *others = self._embed([spelled, *parts])
        pairs = zip(parts, others, strict=True)
        return Query(
            text=text,
            vector=vector,
            parts=tuple(Query(text=part, vector=values) for part, values in pairs),
        )

    @staticmethod
    def correct_spelling(
        corrections: Mapping[str, str], text: str, *, known: Callable[[str], bool] = lambda _: False
    ) -> str:
        """Return a request as embedding models understand it best.

        Misspelt words, but for those that the model knows, are in the rows' spelling, names that no
        row has are followed by the rows' own, and compatibility characters are plain ones.

        Args:
            corrections: What `BM25Retriever.corrections` returns for the text.
            text: The request.
            known: Whether the model knows a word.
        """
        wanted = {
            word: right
            for word, right in corrections.items()
            if right.startswith(f"{word} ") or not known(word)
        }
        if wanted:
            text = _WORD.sub(lambda word: wanted.get(word[0].lower(), word[0]), text)
        return text if text.isascii() else unicodedata.normalize("NFKC", text)

    def run(
        self,
        candidates: Candidates,
        query: Query,
        *,
        limit: int,
        weights: Mapping[str, float] = _WEIGHTS,
        usage: Mapping[str, float] = _NO_USAGE,
        calibration: Calibration | None = None,
        adjust: Adjust | None = None,
        whole: bool = False,
    ) -> Found:
        """Start a search of which the caller decides everything.

        Args:
            candidates: Where rows come from.
            query: The request, with its vector and its parts.
            limit: How many results will be taken; of these only are the details computed at once.
            weights: The channels to use ("bm25", "vector", "fuzzy"), with their weights.
            usage: Factors of past use by id, as `usage_prior` returns them.
            calibration: What similarities mean; by default that of the search.
            adjust: Moves some of the first ranked rows, given those that the request names.
            whole: Whether to rank all candidates, which `Found.explain_rank` needs.
        """
        channels = _channels(candidates, query, weights)
        named = {hit.id: hit.score for hit in candidates.named(query.text)}
        return Found(
            candidates=candidates,
            query=query,
            channels=frozenset(channel.retriever.name for channel in channels),
            calibration=calibration or self._calibration,
            named=named,
            limit=limit,
            name=self._name,
            equal=self._equal,
            rank=partial(_rank, self._ranker(channels, usage), query, named, adjust, whole=whole),
        )


class Found:
    """What one search ranked; results are made as they are taken."""

    def __init__(
        self,
        *,
        candidates: Candidates,
        query: Query,
        channels: Set[str],
        calibration: Calibration,
        named: Mapping[str, float],
        limit: int,
        name: Callable[[str], str] | None,
        equal: EqualRows | None,
        rank: Callable[[int], Ranking],
    ) -> None:
        self._candidates = candidates
        self._query = query
        self._channels = channels
        self._calibration = calibration
        self._limit = limit
        self._name = name
        self._equal = equal
        self._rank = rank
        self._most = max(limit, _RANKED)
        self._depth = self._most + _SPARE + len(named)

    def results(self) -> Iterator[SearchResult]:
        """Yield the results, best first, until no more are ranked or enough have been taken.

        Which these are does not depend on how many are taken.
        """
        unit: float | None = None
        least = 1.0
        seen: set[str] = set()
        count, at_once, depth = 0, self._limit, self._depth
        while True:
            ranking = self._rank(depth)
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
            if count >= self._most or len(ids) < depth:
                return
            seen.update(ids)
            depth *= 4

    def explain_rank(
        self, id_: str, shown: Sequence[SearchResult]
    ) -> tuple[tuple[SearchResult, ...], RankExplanation]:
        """Return where a row stands, and its result followed by the one it is compared with.

        Args:
            id_: The row.
            shown: The first results, as they were shown.
        """
        ranking, depth = self._rank(self._depth), self._depth
        ids = ranking.ids
        for at, each in enumerate(shown):
            if each.id == id_:
                return (each, *shown[at - 1 : at]), RankExplanation(ranked=len(ids), rank=at + 1)
        last = tuple(shown[-1:])
        if id_ not in ids:
            return last, RankExplanation(ranked=len(ids))
        distinct = dict(self._distinct(ids[:depth] if id_ in ids[:depth] else ids))
        if id_ not in distinct:
            numbered = enumerate(distinct.items(), start=1)
            same = next((at, it) for at, (it, equals) in numbered if id_ in equals.ids)
            return (), RankExplanation(ranked=len(ids), same=same)
        kept = [*distinct]
        # All scores are relative to the confidence of the first.
        judged = self._judged(ranking, list(dict.fromkeys((kept[0], id_))))
        own: tuple[SearchResult, ...] = ()
        if judged and judged[-1][0].id == id_:
            (first, most), (hit, sureness) = judged[0], judged[-1]
            unit = most / first.score if first.score else 0.0
            own = (_result(hit, ALONE, hit.score * unit, sureness),)
        rank = max(kept.index(id_), len(shown)) + 1
        return (*own, *last), RankExplanation(ranked=len(ids), rank=rank)

    def _distinct(self, ids: Sequence[str]) -> Iterator[tuple[str, Equals]]:
        if self._equal is None:
            return ((id_, ALONE) for id_ in ids)
        return self._equal.distinct(ids, self._candidates, self._query.text)

    def _judged(self, ranking: Ranking, ids: Sequence[str]) -> list[tuple[RankedHit, float]]:
        """Return the hits of some ids that are rows, each with its confidence."""
        rows = self._candidates.existing(ids)
        hits = ranking.hits([id_ for id_ in ids if id_ in rows])
        unknown = self._calibration.unknown if "vector" in self._channels else 0.0
        of_parts: list[list[str]] = [[] for _ in self._query.parts]
        for hit in hits:
            if hit.explanation is not None and hit.explanation.part is not None:
                of_parts[hit.explanation.part].append(hit.id)
        queries = (self._query, *self._query.parts)
        words = [
            _Words.of(each.text, its, self._channels, self._candidates, unknown)
            for each, its in zip(queries, ([hit.id for hit in hits], *of_parts), strict=True)
        ]
        return [(hit, self._confidence(hit, words)) for hit in hits]

    def _confidence(self, hit: RankedHit, words: Sequence[_Words]) -> float:
        explanation, channels = hit.explanation, self._channels
        if explanation is not None:
            channels = channels - frozenset(explanation.missing)
        has_meaning = "vector" in channels
        name = "" if has_meaning or self._name is None else self._name(hit.id)
        given = [(hit.contributions, words[0])]
        if explanation is not None and explanation.part is not None:
            given.append((hit.part_contributions, words[1 + explanation.part]))
        return max(
            confidence(
                Evidence(
                    coverage=None if its.coverage is None else its.coverage.get(hit.id, 0.0),
                    terms=its.terms,
                    # Only words count, and they are cheap.
                    name_coverage=name_share(its.text, name) if name else 0.0,
                    strength=None if its.scale is None else _strength(contributions, its.scale),
                    contrast=_contrast(contributions) if has_meaning else None,
                    is_exact=explanation is not None and explanation.pinned,
                ),
                calibration=self._calibration,
            )
            for contributions, its in given
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    """A request, or a part of one, with its words' evidence about the rows found.

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

    @classmethod
    def of(
        cls,
        text: str,
        ids: Sequence[str],
        channels: Set[str],
        candidates: Candidates,
        unknown: float,
    ) -> _Words:
        """Read the evidence of the channels that ran."""
        has_words = "bm25" in channels
        return cls(
            text=text,
            terms=len(query_terms(text)),
            coverage=candidates.coverage(text, ids, unknown=unknown) if has_words else None,
            scale=candidates.scale(text) if "fuzzy" in channels else None,
        )


@dataclass(frozen=True, slots=True)
class _Retriever:
    """A retriever of one kind of candidates."""

    name: str
    candidates: Candidates

    def retrieve(self, query: Query, *, depth: int) -> list[Hit]:
        if self.name == "bm25":
            return list(self.candidates.lexical(query.text, depth=depth))
        if self.name == "fuzzy":
            return list(self.candidates.fuzzy(query.text, depth=depth))
        if query.vector is None:
            return []
        then = [part.vector for part in query.parts if part.vector is not None]
        return list(self.candidates.nearest(query.vector, depth=depth, then=then))


def _channels(candidates: Candidates, query: Query, weights: Mapping[str, float]) -> list[Channel]:
    channels = [
        Channel(_Retriever(name, candidates), weights[name])
        for name in ("bm25", "fuzzy")
        if name in weights
    ]
    if "vector" in weights and query.vector is not None:
        everything = candidates.unfiltered
        channels.append(
            Channel(
                _Retriever("vector", candidates),
                weights["vector"],
                missing_score="last",
                covered_ids=candidates.with_vectors if candidates.lacks_vectors else None,
                # Of the few rows that pass a filter, all may be good, or none.
                unfiltered=None if everything is None else _Retriever("vector", everything),
            )
        )
    return channels


def _ranker(
    channels: Sequence[Channel],
    usage: Mapping[str, float],
    *,
    group: Callable[[str], str] | None,
    name: Callable[[str], str] | None,
) -> HybridRanker:
    return HybridRanker(channels, group=group, name=name, usage=usage)


def _no_group(_: str) -> str:
    return ""


def _rank(
    ranker: Ranker,
    query: Query,
    named: Mapping[str, float],
    adjust: Adjust | None,
    depth: int,
    *,
    whole: bool,
) -> Ranking:
    """Return what a ranker finds for the first `depth` places; if `whole`, as far as it can.

    Of several rows with the same name, the one that fits best comes first.
    """
    pinned = list(named)
    if isinstance(ranker, HybridRanker):
        ranking = ranker.ranking(
            query, depth=max(depth, _DEPTH), pinned=pinned, limit=None if whole else depth
        )
        if len(named) > 1:
            first = _sorted(ranking.hits(ranking.ids[: len(named)]), named)
            ids = [*(hit.id for hit in first), *ranking.ids[len(named) :]]
            ranking = ranking._replace(ids=ids)
    else:
        hits = _sorted(ranker.rank(query, limit=depth, pinned=pinned), named)
        of = {hit.id: hit for hit in hits}

        def made(ids: Sequence[str]) -> list[RankedHit]:
            return [of[id_] for id_ in ids]

        ranking = Ranking(list(of), {id_: hit.score for id_, hit in of.items()}, made)
    return ranking if adjust is None else adjust(ranking, ranking.ids[:depth], named)


def _sorted(hits: Sequence[RankedHit], named: Mapping[str, float]) -> Sequence[RankedHit]:
    if len(named) <= 1:
        return hits

    def place(hit: RankedHit) -> tuple[float, float]:
        if hit.id not in named or hit.explanation is None:
            return 0.0, 0.0
        return -named[hit.id], -hit.explanation.merged

    return sorted(hits, key=place)


def _result(hit: RankedHit, equals: Equals, score: float, sureness: float) -> SearchResult:
    return SearchResult(
        id=hit.id,
        score=score,
        confidence=sureness,
        match=_match(hit),
        duplicates=equals.duplicates,
        also=equals.also,
        hit=hit,
    )


def _match(hit: RankedHit) -> Literal["exact", "words", "meaning", "both", "fuzzy"]:
    """Return how a hit was found, by the request or by the part that found it."""
    if hit.explanation is not None and hit.explanation.pinned:
        return "exact"
    given = hit.contributions or hit.part_contributions
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
