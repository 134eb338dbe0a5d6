"""Ranking the candidates of one search: channels, fusion, priors."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from toolrank._arguments import check_weight
from toolrank._fusion import LIST_DEPTH, FusedScores, contributions_of
from toolrank._names import VERB_PENALTY, names_an_action, verb_priors
from toolrank._records import Explanation
from toolrank.errors import RankingArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set

    from toolrank._query import Query
    from toolrank._records import Contribution, Hit
    from toolrank.protocols import Candidates, Fusion

# The largest share of a score that past use can add or take away.
_USAGE_BOUND = 0.1
_HALF_CONFIDENT_AT = 10
_DEPRECATED_SHARE = 0.75
# How many candidates a channel is asked for, at least.
_DEPTH = 100


class RankedHit(NamedTuple):
    """A row of a ranking: what the channels contributed to it, and why it ranks there."""

    id: str
    score: float
    contributions: tuple[Contribution, ...]
    subquery_contributions: tuple[Contribution, ...]
    explanation: Explanation


class Ranking(NamedTuple):
    """Candidates in order.

    Attributes:
        ids: Best first.
        scores: The score of each, by id.
        hits: Makes hits of some of the ids, in the order given.
    """

    ids: Sequence[str]
    scores: Mapping[str, float]
    hits: Callable[[Sequence[str]], list[RankedHit]]


class _Lists(NamedTuple):
    """The channels' lists for a request or a subquery, and their fusion."""

    hits: Mapping[str, Sequence[Hit]]
    unfiltered: Mapping[str, Sequence[Hit]]
    fused: FusedScores
    without_vector: Set[str]


class _Scores(NamedTuple):
    """The scores of all candidates, by id, after the steps that need all of them."""

    merged: Mapping[str, float]
    groups: Mapping[str, float]
    verbs: Mapping[str, float]
    final: Mapping[str, float]


class Ranker:
    """Fuses the channels' candidates into one ranking.

    A score is computed in these steps, each of which stays in [0, 1]:

    1. Fusion: `fuse` combines the channels' scores, for the request and for each subquery.
    2. Subqueries: request + subquery_share · (best subquery - request).
    3. Group: (score + group_weight · best of the group) / (1 + group_weight).
    4. Usage: score · `usage_prior`; where the best would pass 1, all are divided by it.
    5. Verb: lower if the name means another action, unless the request has subqueries.
    6. Rows that the request names come first, with a score of 1.
    7. A deprecated row has a part of its score, at most that of its replacement.

    An additional candidate does not reorder the others, as far as `fuse` keeps that promise, unless
    it becomes the best for a subquery or of its group: others are measured by those.
    """

    def __init__(
        self,
        *,
        fuse: Fusion,
        subquery_share: float,
        group: Callable[[str], str] | None,
        group_weight: float,
        name: Callable[[str], str] | None,
    ) -> None:
        if not 0 <= subquery_share <= 1:
            raise RankingArgumentError("subquery_share", f"{subquery_share} is not in [0, 1]")
        check_weight(group_weight, of="the group", argument="group_weight")
        self._fuse = fuse
        self._subquery_share = subquery_share
        self._group = group
        self._group_weight = group_weight
        self._name = name

    def rank(
        self,
        candidates: Candidates,
        query: Query,
        weights: Mapping[str, float],
        *,
        named: Mapping[str, float],
        usage: Mapping[str, tuple[int, int]],
        deprecated: Mapping[str, Collection[str]],
        depth: int,
        limit: int | None,
    ) -> Ranking:
        """Return the candidates in order, from which hits can be made.

        Making a hit takes as long as ranking it, and only a few of many are needed.

        Args:
            candidates: Where rows come from.
            query: The request.
            weights: The weights of the channels, those with a weight of 0 left out.
            named: The rows that the request names, with the certainty of each.
            usage: Successes and failures, by id.
            deprecated: Deprecated rows, with those that replace each.
            depth: How many places to compare deprecated rows with; of a channel, at least 100 rows
                are retrieved, so that one that it ranks low can still rise.
            limit: Of how many the order matters; the others may be missing.
        """
        searched = (query, *(query.subqueries if self._subquery_share else ()))
        depths = (max(depth, _DEPTH), *(LIST_DEPTH for _ in searched[1:]))
        whole, *subqueries = (
            self._search(candidates, each, weights, deep)
            for each, deep in zip(searched, depths, strict=True)
        )
        scores = self._score(query, whole.fused, subqueries, usage, [*named], limit)
        first = sorted(named, key=lambda id_: (-named[id_], -scores.merged[id_]))
        rest = scores.final.keys() - named.keys()
        ids = first + sorted(sorted(rest), key=scores.final.__getitem__, reverse=True)
        final = {**scores.final, **dict.fromkeys(first, 1.0)}
        if deprecated:
            ids, final = self._lower(ids, depth, final, deprecated, self._as_written(query, named))

        lists = (whole, *subqueries)

        def explained(id_: str) -> Explanation:
            answered = [
                (each.fused.of(id_), -at) for at, each in enumerate(subqueries) if each.fused.scores
            ]
            subquery_score, number = max(answered, default=(None, None))
            return Explanation(
                request=whole.fused.of(id_),
                merged=scores.merged[id_],
                subquery=None if number is None else -number,
                subquery_score=subquery_score,
                group=scores.groups.get(id_),
                usage=_factor(usage, id_),
                verb=scores.verbs.get(id_, 1.0),
                pinned=id_ in named,
                missing=("vector",) if any(id_ in it.without_vector for it in lists) else (),
            )

        def hits(wanted: Sequence[str]) -> list[RankedHit]:
            reasons = {id_: explained(id_) for id_ in wanted}
            answered: list[list[str]] = [[] for _ in subqueries]
            for id_, why in reasons.items():
                if why.subquery is not None:
                    answered[why.subquery].append(id_)
            contributions, *others = (
                contributions_of(each.hits, each.unfiltered, its, self._group)
                for each, its in zip(lists, (wanted, *answered), strict=True)
            )
            return [
                RankedHit(
                    id_,
                    final[id_],
                    tuple(contributions[id_]),
                    () if why.subquery is None else tuple(others[why.subquery][id_]),
                    why,
                )
                for id_, why in reasons.items()
            ]

        return Ranking(ids, final, hits)

    def _search(
        self, candidates: Candidates, query: Query, weights: Mapping[str, float], depth: int
    ) -> _Lists:
        """Search the channels one after the other.

        Those over one SQLite connection wait for each other anyway, and threads would cost more
        than they could save.
        """
        hits: dict[str, Sequence[Hit]] = {}
        unfiltered: dict[str, Sequence[Hit]] = {}
        without_vector: Set[str] = frozenset()
        for name in weights:
            if name == "bm25":
                hits[name] = candidates.lexical(query.text, depth=depth)
            elif name == "fuzzy":
                hits[name] = candidates.fuzzy(query.text, depth=depth)
            else:
                hits[name] = _nearest(candidates, query, depth)
        near = hits.get("vector")
        if near and (everything := candidates.unfiltered) is not None:
            # Of the few rows that pass a filter, all may be good, or none.
            unfiltered["vector"] = _nearest(everything, query, LIST_DEPTH)
        if near is not None and candidates.lacks_vectors:
            others = {hit.id for found in hits.values() for hit in found}
            if others := others.difference(hit.id for hit in near):
                without_vector = others.difference(candidates.with_vectors(others))
        # A row that is missing at the end of a list may have nearly the score of the last; in that
        # of vectors, any row may have it.
        floors = {
            name: found[-1].score
            for name, found in hits.items()
            if found and (name == "vector" or len(found) >= depth)
        }
        missing = {"vector": without_vector} if without_vector else {}
        fused = self._fuse(hits, weights=weights, floors=floors, missing=missing)
        return _Lists(hits, unfiltered, fused, without_vector)

    def _score(
        self,
        query: Query,
        whole: FusedScores,
        subqueries: Sequence[_Lists],
        usage: Mapping[str, tuple[int, int]],
        named: Sequence[str],
        limit: int | None,
    ) -> _Scores:
        best = _best([each.fused for each in subqueries])
        others = named if best is None else [*named, *best.scores]
        merged = {**dict.fromkeys(others, whole.floor), **whole.scores}
        if best is not None:
            get, floor, share = best.scores.get, best.floor, self._subquery_share
            for id_, request in merged.items():
                merged[id_] = request + share * (get(id_, floor) - request)
        groups: dict[str, float] = {}
        final = merged
        if self._group is not None:
            groups = _best_in_group(merged, self._group)
            # A request for one tool of a server often means the server, and a request mentions only
            # once what its descriptions have in common. Computed as a step towards the best, so
            # that rounding never exceeds it.
            share = self._group_weight / (1 + self._group_weight)
            final = {id_: score + (groups[id_] - score) * share for id_, score in merged.items()}
        if usage:
            final = {id_: score * _factor(usage, id_) for id_, score in final.items()}
            most = max(1.0, max(final.values(), default=0.0))
            final = {id_: score / most for id_, score in final.items()}
        verbs: dict[str, float] = {}
        has_verb = self._name is not None and not query.subqueries and names_an_action(query.text)
        if limit is not None and len(final) > limit:
            # The others cannot rank higher than these, whatever their verbs.
            least = sorted(final.values())[-limit] * (1 - VERB_PENALTY if has_verb else 1.0)
            kept = {id_: score for id_, score in final.items() if score >= least}
            final = {id_: final[id_] for id_ in named} | kept
        if self._name is not None and has_verb:
            verbs = dict(zip(final, verb_priors(query.text, map(self._name, final)), strict=True))
            final = {id_: score * verbs[id_] for id_, score in final.items()}
        return _Scores(merged, groups, verbs, final)

    def _as_written(self, query: Query, named: Iterable[str]) -> set[str]:
        """Return the rows whose names a request has exactly."""
        return {id_ for id_ in named if (self._name(id_) if self._name else id_) in query.text}

    @staticmethod
    def _lower(
        ids: list[str],
        depth: int,
        scores: Mapping[str, float],
        deprecated: Mapping[str, Collection[str]],
        exempt: Set[str],
    ) -> tuple[list[str], dict[str, float]]:
        """Move deprecated rows among the first ones down; return all rows, and their scores."""
        moved = [id_ for id_ in ids[:depth] if id_ in deprecated and id_ not in exempt]
        order = [id_ for id_ in ids[:depth] if id_ not in moved]
        now = dict(scores)
        for id_ in moved:
            others = [it for it in order if it in deprecated[id_]]
            now[id_] = min([now[id_] * _DEPRECATED_SHARE, *(now[it] for it in others)])
            lower = (at for at, it in enumerate(order) if now[it] < now[id_])
            last = max((order.index(it) + 1 for it in others), default=0)
            order.insert(max(next(lower, len(order)), last), id_)
        return [*order, *ids[depth:]], now


@lru_cache(maxsize=1 << 12)
def usage_prior(successes: int, failures: int) -> float:
    """Return the factor by which past use changes a score, from 0.9 to 1.1.

    It is 1 + 0.1 · (2 · rate - 1) · n / (n + 10), where n counts the outcomes and the rate is
    that of success by Laplace's rule of succession, (successes + 1) / (n + 2). Without outcomes
    it is 1, and few outcomes say little.

    Raises:
        RankingArgumentError: A count below zero.
    """
    if successes < 0 or failures < 0:
        raise RankingArgumentError("usage", f"{min(successes, failures)} outcomes is below 0")
    count = successes + failures
    rate = (successes + 1) / (count + 2)
    return 1 + _USAGE_BOUND * (2 * rate - 1) * count / (count + _HALF_CONFIDENT_AT)


def _factor(usage: Mapping[str, tuple[int, int]], id_: str) -> float:
    return usage_prior(*usage[id_]) if id_ in usage else 1.0


def _nearest(candidates: Candidates, query: Query, depth: int) -> Sequence[Hit]:
    if query.vector is None:
        return []
    then = [each.vector for each in query.subqueries if each.vector is not None]
    return candidates.nearest(query.vector, depth=depth, then=then)


def _best(subqueries: Iterable[FusedScores]) -> FusedScores | None:
    """Return each candidate's best score of any subquery, or None if none found anything."""
    found = [each for each in subqueries if each.scores]
    if not found:
        return None
    floor = max(each.floor for each in found)
    scores: dict[str, float] = {}
    for each in found:
        for id_, score in each.scores.items():
            scores[id_] = max(score, scores.get(id_, floor))
    return FusedScores(scores, floor)


def _best_in_group(scores: Mapping[str, float], group: Callable[[str], str]) -> dict[str, float]:
    """Return the best score of each candidate's group, by the candidate's id."""
    groups = [*map(group, scores)]
    best: dict[str, float] = {}
    for name, score in zip(groups, scores.values(), strict=True):
        if score > best.get(name, -1.0):
            best[name] = score
    return dict(zip(scores, map(best.__getitem__, groups), strict=True))
