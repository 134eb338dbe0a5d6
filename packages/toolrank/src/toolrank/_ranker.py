"""The ranker: run the channels, fuse, apply the priors, cut."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

from toolrank._checks import check_weight
from toolrank._fusion import (
    PART_DEPTH,
    UNITS,
    FusedScores,
    Fusion,
    contributions_of,
    linear_fusion,
)
from toolrank._names import VERB_PENALTY, names_an_action, verb_priors
from toolrank._records import Explanation, RankedHit
from toolrank.errors import RankingArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set

    from toolrank._records import Hit, Query
    from toolrank.protocols import Retriever

USAGE_BOUND = 0.1
"""The largest share of a score that past use can add or take away."""

_HALF_CONFIDENT_AT = 10


def usage_prior(successes: int, failures: int) -> float:
    """Return the factor by which past use changes a score: 1 ± `USAGE_BOUND` at most.

    It is 1 + 0.1 · (2 · rate - 1) · n / (n + 10), where n counts the outcomes and the rate is
    that of success by Laplace's rule of succession, (successes + 1) / (n + 2). Without outcomes
    it is 1, and few outcomes say little.

    Raises:
        RankingArgumentError: A count below zero.
    """
    for name, count in (("successes", successes), ("failures", failures)):
        if count < 0:
            raise RankingArgumentError(name, f"{count} is below 0")
    count = successes + failures
    rate = (successes + 1) / (count + 2)
    return 1 + USAGE_BOUND * (2 * rate - 1) * count / (count + _HALF_CONFIDENT_AT)


def bounded_usage(factors: Mapping[str, float], id_: str) -> float:
    """Return a candidate's factor: 1.0 if it has none, never further from 1 than the bound."""
    factor = factors.get(id_, 1.0)
    # This order turns NaN into the lowest factor.
    return min(1 + USAGE_BOUND, max(1 - USAGE_BOUND, factor))


def best_in_group(scores: Mapping[str, float], group: Callable[[str], str]) -> dict[str, float]:
    """Return the best score of each candidate's group, by the candidate's id."""
    groups = [*map(group, scores)]
    best: dict[str, float] = {}
    for name, score in zip(groups, scores.values(), strict=True):
        if score > best.get(name, -1.0):
            best[name] = score
    return dict(zip(scores, map(best.__getitem__, groups), strict=True))


def blend_with_best(
    scores: Mapping[str, float], best: Mapping[str, float], *, weight: float
) -> dict[str, float]:
    """Raise scores by the best of their groups: (score + weight · best) / (1 + weight).

    A request for one tool of a server often means the server, and a request mentions only once what
    its descriptions have in common. The best of a group keeps its score.
    """
    # Computed as a step towards the best, so that rounding never exceeds it.
    share = weight / (1 + weight)
    return {id_: score + (best[id_] - score) * share for id_, score in scores.items()}


_DEPTH = 100
_BY_STRENGTH: Fusion = partial(linear_fusion, units=UNITS)
_NO_USAGE: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Channel:
    """A retriever and its weight in the fusion.

    Attributes:
        retriever: Returns the candidates.
        weight: Zero or more; 0 switches the retriever off.
        missing_score: The score of other channels' candidates that this one does not return.
            "zero" suits a retriever that leaves out what does not match, such as one for words;
            "last", the score of its last hit, suits one that orders every row, such as one for
            vectors, so that a row without a vector is not penalized. If a list is as long
            as requested, it is the last score in either case.
        covered_ids: Returns the ids that have a score in this retriever (e.g. a vector); None if
            all have. Its scores for the others are estimated from the other channels, as the
            fusion describes.
        unfiltered: The same retriever over every row, where `retriever` has a filter: what hits
            are compared with then does not depend on which rows pass it (`Contribution`).
    """

    retriever: Retriever
    weight: float = 1.0
    missing_score: Literal["zero", "last"] = "zero"
    covered_ids: Callable[[Collection[str]], Collection[str]] | None = None
    unfiltered: Retriever | None = None


class HybridRanker:
    """Fuse the candidates of several retrievers into one ranking.

    A hit's score is computed in these steps, each of which stays in [0, 1]:

    1. Fusion: `fuse` combines the channels' scores, for the whole request and for each part.
    2. Parts: request + part_share · (best part - request).
    3. Group: (score + group_weight · best of the group) / (1 + group_weight).
    4. Usage: score · factor; where the best would pass 1, all are divided by it.
    5. Verb: score · `verb_prior` of the request and the name, unless the request has parts.
    6. Pinned hits come first, with a score of 1.

    An additional candidate does not reorder the others, as far as `fuse` keeps that promise, unless
    it becomes the best for a part or of its group: others are measured by those.

    The channels run one after the other. Those over one SQLite connection wait for each other
    anyway, and threads would cost more than they could save.

    Args:
        channels: The retrievers with their weights; names must differ.
        fuse: How to combine their rankings: by default `linear_fusion` with `UNITS`.
        part_share: The weight of a compound request's parts, from 0 (not searched) to 1.
        group: Returns a candidate's group by its id, such as the server of a tool; None for no
            groups.
        group_weight: How much the best of a group lifts the others.
        name: Returns a candidate's name by its id, for its verb; None to ignore verbs.
        usage: Factors of past use by id, as `usage_prior` returns them; 1.0 if not given.

    Raises:
        RankingArgumentError: Two channels of one name, a weight that is negative or not finite,
            or a share that is not in [0, 1].
    """

    def __init__(
        self,
        channels: Iterable[Channel],
        *,
        fuse: Fusion = _BY_STRENGTH,
        part_share: float = 0.3,
        group: Callable[[str], str] | None = None,
        group_weight: float = 0.3,
        name: Callable[[str], str] | None = None,
        usage: Mapping[str, float] = _NO_USAGE,
    ) -> None:
        self._channels = tuple(channels)
        self._names = [channel.retriever.name for channel in self._channels]
        if len(set(self._names)) < len(self._names):
            raise RankingArgumentError("channels", f"names must differ, got {self._names}")
        for channel in self._channels:
            check_weight(channel.weight, of=repr(channel.retriever.name), argument="channels")
        if not 0 <= part_share <= 1:
            raise RankingArgumentError("part_share", f"{part_share} is not in [0, 1]")
        check_weight(group_weight, of="the group", argument="group_weight")
        self._fuse = fuse
        self._part_share = part_share
        self._group = group
        self._group_weight = group_weight
        self._name = name
        self._usage = usage

    def rank(
        self, query: Query, *, limit: int, depth: int | None = None, pinned: Sequence[str] = ()
    ) -> list[RankedHit]:
        """Return the best `limit` hits: those pinned, then best first, ties by id.

        Args:
            query: What is asked; the channels are asked for it and for each of its parts.
            limit: How many hits to return, at least 1.
            depth: How many candidates to take from each retriever, for a part `PART_DEPTH` at
                most, so that a hit one list ranks low can still rise. Scores depend on it; by
                default it is 100 for every limit up to that, so that a longer answer begins with
                the shorter one.
            pinned: Ids that come first, in this order, also those that no channel finds.

        Raises:
            RankingArgumentError: A limit or a depth below 1.
            RetrievalError: A retriever's source is broken.
        """
        if limit < 1:
            raise RankingArgumentError("limit", f"{limit} is below 1")
        if depth is not None and depth < 1:
            raise RankingArgumentError("depth", f"{depth} is below 1")
        depth = depth or max(limit, _DEPTH)
        ranking = self.ranking(query, depth=depth, pinned=pinned, limit=limit)
        return ranking.hits(ranking.ids[:limit])

    def ranking(
        self, query: Query, *, depth: int, pinned: Sequence[str] = (), limit: int | None = None
    ) -> Ranking:
        """Return all candidates in order, from which hits can be made.

        Making a hit takes as long as ranking it, so this is faster if only a few of many are
        needed. The arguments and errors are those of `rank`. With a limit, only that many are
        certain to be included.
        """
        whole = self._asked(query, depth)
        asked = query.parts if self._part_share else ()
        found = [self._asked(part, min(depth, PART_DEPTH)) for part in asked]
        scored = self._scored(query, whole.scores, [part.scores for part in found], pinned, limit)
        first = list(dict.fromkeys(pinned))
        rest = scored.final.keys() - set(first)
        ordered = first + sorted(sorted(rest), key=scored.final.__getitem__, reverse=True)

        def hits(ids: Sequence[str]) -> list[RankedHit]:
            return self._hits(ids, whole, found, scored, frozenset(first))

        return Ranking(ordered, {**scored.final, **dict.fromkeys(first, 1.0)}, hits)

    def _hits(
        self,
        ids: Sequence[str],
        whole: _Asked,
        found: Sequence[_Asked],
        scored: _Scored,
        pinned: Set[str],
    ) -> list[RankedHit]:
        parts = [part.scores for part in found]
        of_channels = [each for asked in (whole, *found) for each in asked.missing.items()]
        reasons: dict[str, Explanation] = {}
        answered: list[list[str]] = [[] for _ in found]
        for id_ in ids:
            missing = {name for name, unknown in of_channels if id_ in unknown}
            why = self._explained(id_, whole.scores, parts, scored, id_ in pinned, missing)
            reasons[id_] = why
            if why.part is not None:
                answered[why.part].append(id_)
        contributions, *of_parts = (
            contributions_of(each.rankings, each.unfiltered, its, self._group)
            for each, its in zip((whole, *found), (ids, *answered), strict=True)
        )
        return [
            RankedHit(
                id=id_,
                score=1.0 if why.pinned else scored.final[id_],
                contributions=tuple(contributions[id_]),
                part_contributions=() if why.part is None else tuple(of_parts[why.part][id_]),
                explanation=why,
            )
            for id_, why in reasons.items()
        ]

    def _asked(self, query: Query, depth: int) -> _Asked:
        rankings: dict[str, Sequence[Hit]] = {}
        floors: dict[str, float] = {}
        active = [channel for channel in self._channels if channel.weight > 0]
        for channel in active:
            name = channel.retriever.name
            hits = rankings[name] = channel.retriever.retrieve(query, depth=depth)
            if hits and (channel.missing_score == "last" or len(hits) >= depth):
                floors[name] = hits[-1].score
        unfiltered = {
            channel.retriever.name: channel.unfiltered.retrieve(query, depth=PART_DEPTH)
            for channel in active
            if channel.unfiltered is not None and rankings[channel.retriever.name]
        }
        missing = _missing(active, rankings)
        weights = {channel.retriever.name: channel.weight for channel in active}
        scores = self._fuse(rankings, weights=weights, floors=floors, missing=missing)
        return _Asked(rankings, unfiltered, scores, missing)

    def _scored(
        self,
        query: Query,
        whole: FusedScores,
        parts: Sequence[FusedScores],
        pinned: Sequence[str],
        limit: int | None,
    ) -> _Scored:
        best = _best(parts)
        others = [*pinned] if best is None else [*pinned, *best.scores]
        merged = {**dict.fromkeys(others, whole.floor), **whole.scores}
        if best is not None:
            get, floor, share = best.scores.get, best.floor, self._part_share
            for id_, request in merged.items():
                merged[id_] = request + share * (get(id_, floor) - request)
        groups: dict[str, float] = {}
        final = merged
        if self._group is not None:
            groups = best_in_group(merged, self._group)
            final = blend_with_best(merged, groups, weight=self._group_weight)
        if self._usage:
            used = {id_: score * bounded_usage(self._usage, id_) for id_, score in final.items()}
            most = max(1.0, max(used.values(), default=0.0))
            final = {id_: score / most for id_, score in used.items()}
        verbs: dict[str, float] = {}
        has_verb = self._name is not None and not query.parts and names_an_action(query.text)
        if limit is not None and len(final) > limit:
            # The others cannot rank higher than these, whatever their verbs.
            least = sorted(final.values())[-limit] * (1 - VERB_PENALTY if has_verb else 1.0)
            kept = {id_: score for id_, score in final.items() if score >= least}
            final = {id_: final[id_] for id_ in pinned} | kept
        if self._name is not None and has_verb:
            verbs = dict(zip(final, verb_priors(query.text, map(self._name, final)), strict=True))
            final = {id_: score * verbs[id_] for id_, score in final.items()}
        return _Scored(merged, groups, verbs, final)

    def _explained(
        self,
        id_: str,
        whole: FusedScores,
        parts: Sequence[FusedScores],
        scored: _Scored,
        pinned: bool,
        missing: Collection[str],
    ) -> Explanation:
        answered = [(part.of(id_), -number) for number, part in enumerate(parts) if part.scores]
        part_score, number = max(answered, default=(None, None))
        return Explanation(
            request=whole.of(id_),
            part=None if number is None else -number,
            part_score=part_score,
            merged=scored.merged[id_],
            group=scored.groups.get(id_),
            usage=bounded_usage(self._usage, id_),
            verb=scored.verbs.get(id_, 1.0),
            pinned=pinned,
            missing=tuple(name for name in self._names if name in missing),
        )


class Ranking(NamedTuple):
    """All candidates for a query.

    Attributes:
        ids: Their ids, best first.
        scores: The score of each, by id.
        hits: Makes hits of some of the ids, in the order given.
    """

    ids: Sequence[str]
    scores: Mapping[str, float]
    hits: Callable[[Sequence[str]], list[RankedHit]]


class _Asked(NamedTuple):
    """What the channels returned for one query."""

    rankings: Mapping[str, Sequence[Hit]]
    unfiltered: Mapping[str, Sequence[Hit]]
    scores: FusedScores
    missing: Mapping[str, Set[str]]


class _Scored(NamedTuple):
    """The scores of all candidates, by id, after the steps that need all of them."""

    merged: Mapping[str, float]
    groups: Mapping[str, float]
    verbs: Mapping[str, float]
    final: Mapping[str, float]


def _best(parts: Iterable[FusedScores]) -> FusedScores | None:
    """Return each candidate's best score of any part, or None if no part found anything."""
    heard = [part for part in parts if part.scores]
    if not heard:
        return None
    floor = max(part.floor for part in heard)
    scores: dict[str, float] = {}
    for part in heard:
        for id_, score in part.scores.items():
            scores[id_] = max(score, scores.get(id_, floor))
    return FusedScores(scores, floor)


def _missing(
    channels: Iterable[Channel], rankings: Mapping[str, Sequence[Hit]]
) -> dict[str, Set[str]]:
    """Return the candidates that a channel cannot judge, if it does not know every row."""
    missing: dict[str, Set[str]] = {}
    for channel in channels:
        if channel.covered_ids is None:
            continue
        own = channel.retriever.name
        others = {hit.id for name, hits in rankings.items() if name != own for hit in hits}
        others -= {hit.id for hit in rankings[own]}
        if others:
            missing[own] = others.difference(channel.covered_ids(others))
    return missing
