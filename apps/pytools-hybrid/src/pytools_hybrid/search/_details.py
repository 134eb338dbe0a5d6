"""From ranked ids to found tools: equal ones are merged, and details are read last."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import replace
from functools import lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from toolrank import Fingerprint, RankedHit, group_duplicates
from toolscan import split_identifier

from pytools_hybrid.search._confidence import confidences, match_type
from pytools_hybrid.search._deprecation import with_notice
from pytools_hybrid.search._types import FoundTool

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set

    from toolindex import StoreReader, ToolEntry, ToolOutcomes
    from toolrank import Query, Ranking

# "Get details" says too little to tell that two tools are the same.
_TELLING_WORDS = 5
# One word in forty may differ.
_SAME = 0.95
# The share of its score that a deprecated tool keeps.
_DEPRECATED_SHARE = 0.75
# A few kilobytes each.
_MOST_TRAITS = 4_096
_WORD = re.compile(r"[^\W_]+")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
# A name of any other type may mean something else in another module.
_PLAIN_TYPES = frozenset(
    """
    str int float bool bytes list dict tuple set frozenset None Any Literal Optional Union List Dict
    Tuple Set True False typing
    """.split()  # noqa: SIM905 - a block of words reads better than a list of strings
)


class Equals(NamedTuple):
    """The tools that a result stands for, without itself."""

    duplicates: tuple[str, ...] = ()
    also: tuple[str, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.duplicates, *self.also)


_ALONE = Equals()


class Traits(NamedTuple):
    """What tells whether tools are equal, computed from an entry once.

    Attributes:
        words: The distinct words of the description.
        count: How many words it has.
        parameters: Each parameter with its type and default.
        identity: What equal tools of different servers have in common; None if it cannot be told.
    """

    words: frozenset[str]
    count: int
    parameters: frozenset[str]
    identity: Hashable | None

    @classmethod
    def of(cls, entry: ToolEntry) -> Traits:
        """Return the traits of an entry."""
        words = _WORD.findall(entry.description.casefold())
        parameters = (f"{p.name}: {p.annotation} = {p.default}" for p in entry.parameters)
        return cls(frozenset(words), len(words), frozenset(parameters), _identity(entry))


class TraitsCache:
    """The traits of some tools in one state of the store."""

    def __init__(self) -> None:
        self._state: Hashable = None
        self._known: dict[str, Traits] = {}

    def of_state(self, state: Hashable) -> dict[str, Traits]:
        """Return the traits known in a state, to which more may be added."""
        if self._state != state or len(self._known) > _MOST_TRAITS:
            # A new dictionary: another search may still be reading the last one.
            self._state, self._known = state, {}
        return self._known


class Details:
    """Reads what a search needs to know about the tools it has ranked, from one state of the store.

    Args:
        reader: The state.
        query: The request with its parts.
        channels: The channels that ran.
        model_id: The model whose vectors were searched, or an empty string.
        outcomes: The outcomes of using tools, by id.
        deprecated: The notices of deprecated tools, by id.
        traits: The traits of tools in this state, as far as they are known.
    """

    def __init__(
        self,
        reader: StoreReader,
        query: Query,
        channels: Set[str],
        model_id: str,
        outcomes: Mapping[str, ToolOutcomes],
        deprecated: Mapping[str, str],
        traits: dict[str, Traits],
    ) -> None:
        self._reader = reader
        self._query = query
        self._channels = channels
        self._model_id = model_id
        self._outcomes = outcomes
        self._deprecated = deprecated
        self._traits = traits
        self._entries: dict[str, ToolEntry] = {}

    def with_deprecated_lower(
        self, ranking: Ranking, ids: Sequence[str], named: Iterable[str]
    ) -> Ranking:
        """Return a ranking with deprecated tools below what replaces them.

        A deprecated tool keeps a part of its score, at most that of a tool that its notice names.

        Args:
            ranking: What was ranked.
            ids: The first ids of it, among which tools may move.
            named: Those that the request names; one that it has exactly as written stays first.
        """
        asked = {id_ for id_ in named if id_.rpartition(":")[2] in self._query.text}
        moved = [id_ for id_ in ids if id_ in self._deprecated and id_ not in asked]
        if not moved:
            return ranking
        scores = {id_: ranking.scores[id_] for id_ in ids}
        order = [id_ for id_ in ids if id_ not in moved]
        for id_ in moved:
            said = set(re.findall(r"\w[\w.-]*\w", self._deprecated[id_]))
            server = _server(id_)
            others = [it for it in order if _server(it) == server and it.rpartition(":")[2] in said]
            scores[id_] = min([scores[id_] * _DEPRECATED_SHARE, *(scores[it] for it in others)])
            lower = (at for at, it in enumerate(order) if scores[it] < scores[id_])
            last = max((order.index(it) + 1 for it in others), default=0)
            order.insert(max(next(lower, len(order)), last), id_)

        def hits(wanted: Sequence[str]) -> list[RankedHit]:
            return [
                replace(hit, score=scores[hit.id]) if hit.id in moved else hit
                for hit in ranking.hits(wanted)
            ]

        rest = ranking.ids[len(ids) :]
        return ranking._replace(ids=[*order, *rest], scores={**ranking.scores, **scores}, hits=hits)

    def distinct(self, ids: Sequence[str]) -> Iterator[tuple[str, Equals]]:
        """Yield the ids to show, each with those of the tools that it stands for.

        Within one server, tools are duplicates if their names are the same, or differ by a prefix,
        and their descriptions and parameters nearly so. Equal tools of different servers, such as
        two accounts, are one result, too; all such results of an answer come from the same server,
        if it has them all.
        """
        roots = _roots(ids)
        if len({*roots.values()}) == len(roots):
            yield from ((id_, _ALONE) for id_ in ids)
            return
        alike: dict[str, list[str]] = defaultdict(list)
        for id_, root in roots.items():
            alike[root].append(id_)
        known: dict[str, dict[str, Equals]] = {}
        for id_, root in roots.items():
            if len(alike[root]) == 1:
                yield id_, _ALONE
                continue
            if root not in known:
                known[root] = self._resolved(root, alike)
            if (equals := known[root].get(id_)) is not None:
                yield id_, equals

    def _resolved(self, root: str, alike: Mapping[str, Sequence[str]]) -> dict[str, Equals]:
        """Return which of the tools with one name to show, each with those that it stands for."""
        traits = self._traits_of(alike[root])

        def fingerprint(id_: str) -> Fingerprint | None:
            if (its := traits.get(id_)) is None:
                return None
            if its.count < _TELLING_WORDS and not _has_servers_prefix(id_, root):
                return None
            return Fingerprint(its.parameters | {_server(id_)}, its.words)

        bare = [RankedHit(id=id_, score=0.0, contributions=()) for id_ in alike[root]]
        kept = group_duplicates(bare, fingerprint=fingerprint, similarity=_SAME)
        equal: dict[Hashable, list[RankedHit]] = defaultdict(list)
        for hit in kept:
            its = traits.get(hit.id)
            equal[hit.id if its is None else its.identity or hit.id].append(hit)
        shown: dict[str, Equals] = {}
        for hits in equal.values():
            first = hits[0]
            if len(hits) > 1:
                place = _preference(alike.values(), self._query.text)
                first = min(hits, key=lambda hit: place[_server(hit.id)])
            also = tuple(hit.id for hit in hits if hit is not first)
            shown[first.id] = Equals(first.duplicates, also)
        return shown

    def tools(
        self, rank: Callable[[int], Ranking], depth: int, *, most: int, at_once: int
    ) -> Iterator[FoundTool]:
        """Yield ranked tools; the score of the first is its confidence.

        Which tools these are does not depend on how many are taken: a longer answer begins with
        the shorter one.

        Args:
            rank: Ranks tools, so that as many as asked for are in order.
            depth: How many to rank at first; more only if they are fewer than `most` distinct ones.
            most: How many distinct ones are enough.
            at_once: How many to read at once; later, more.
        """
        unit: float | None = None
        least = 1.0
        seen: set[str] = set()
        count = 0
        while True:
            ranking = rank(depth)
            ids = ranking.ids[:depth]
            rest = self.distinct([id_ for id_ in ids if id_ not in seen])
            while some := dict(islice(rest, at_once)):
                count += len(some)
                at_once *= 2
                entries = self._read(list(some))
                # An id that is not among the entries of the same state is damaged.
                known = ranking.hits([id_ for id_ in some if id_ in entries])
                sureness = confidences(
                    known, self._query, self._channels, self._reader, model_id=self._model_id
                )
                for hit, confidence in zip(known, sureness, strict=True):
                    if unit is None:
                        # The best fused score is 1 for every request: alone it only orders an
                        # answer.
                        unit = confidence / hit.score if hit.score else 0.0
                    # Another ranking, of more candidates, may have other scores.
                    least = min(least, hit.score * unit)
                    yield self._found(hit, entries[hit.id], some[hit.id], least, confidence)
            if count >= most or len(ids) < depth:
                return
            seen.update(ids)
            depth *= 4

    def _found(
        self, hit: RankedHit, entry: ToolEntry, equals: Equals, score: float, confidence: float
    ) -> FoundTool:
        return FoundTool(
            entry=self._told(entry),
            score=score,
            match_type=match_type(hit),
            confidence=confidence,
            duplicates=(*hit.duplicates, *equals.duplicates),
            also=equals.also,
            contributions=hit.contributions,
            explanation=hit.explanation,
            outcomes=self._outcomes.get(hit.id),
        )

    def one(self, ranking: Ranking, first: str, id_: str) -> list[FoundTool]:
        """Return a tool as in an answer whose first tool is another one."""
        entries = self._read([first, id_])
        known = ranking.hits([it for it in dict.fromkeys((first, id_)) if it in entries])
        sureness = confidences(
            known, self._query, self._channels, self._reader, model_id=self._model_id
        )
        if not known or known[-1].id != id_:
            return []
        unit = sureness[0] / known[0].score if known[0].score else 0.0
        hit = known[-1]
        return [self._found(hit, entries[id_], _ALONE, hit.score * unit, sureness[-1])]

    def _read(self, ids: Sequence[str]) -> Mapping[str, ToolEntry]:
        if missing := [id_ for id_ in ids if id_ not in self._entries]:
            self._entries.update(self._reader.entries(missing))
        return self._entries

    def _traits_of(self, ids: Sequence[str]) -> Mapping[str, Traits]:
        if missing := [id_ for id_ in ids if id_ not in self._traits]:
            entries = self._read(missing)
            self._traits.update((id_, Traits.of(entries[id_])) for id_ in missing if id_ in entries)
        return self._traits

    def _told(self, entry: ToolEntry) -> ToolEntry:
        """Return an entry whose texts begin with its notice of deprecation, if it has one."""
        if not (notice := self._deprecated.get(str(entry.id))):
            return entry
        return replace(
            entry,
            summary=with_notice(notice, entry.summary),
            description=with_notice(notice, entry.description),
        )


def _server(id_: str) -> str:
    return id_.rpartition(":")[0]


@lru_cache(maxsize=1 << 16)
def _keys(id_: str) -> tuple[str, tuple[str, ...]]:
    """Return a tool's server with the letters of its name, and with those of its last words."""
    server, _, name = id_.rpartition(":")
    words = split_identifier(name)
    keys = [f"{server}:{''.join(words[at:])}" for at in range(len(words) - 1, -1, -1)] or [id_]
    return keys[-1], tuple(keys[:-1])


def _roots(ids: Sequence[str]) -> dict[str, str]:
    """Return the letters of each tool's name, without a prefix if its server has the rest alone."""
    keys = [*map(_keys, ids)]
    have = {whole for whole, _ in keys}
    shorter = have.intersection(chain.from_iterable(ends for _, ends in keys))
    return {
        id_: next((key for key in ends if key in shorter), whole).rpartition(":")[2]
        for id_, (whole, ends) in zip(ids, keys, strict=True)
    }


def _has_servers_prefix(id_: str, root: str) -> bool:
    """Return whether a name differs from its root by the name of its server, or not at all."""
    server, _, name = id_.rpartition(":")
    prefix = "".join(split_identifier(name)).removesuffix(root)
    return prefix in "".join(split_identifier(server.partition(":")[2]))


def _identity(entry: ToolEntry) -> Hashable | None:
    """Return what equal tools of different servers have in common; None if it cannot be told."""
    text = " ".join(entry.description.split())
    types = " ".join(_QUOTED.sub("", parameter.annotation) for parameter in entry.parameters)
    is_plain = _PLAIN_TYPES.issuperset(_WORD.findall(types))
    is_telling = len(_WORD.findall(text)) >= _TELLING_WORDS
    return (text, entry.parameters) if is_telling and is_plain else None


def _preference(names: Iterable[Sequence[str]], request: str) -> dict[str, int]:
    """Return each server's place in the order in which those with equal tools are preferred.

    First come servers that the request names, then those with the most of the names that several
    servers have: one answer prefers the same server for all of its equal tools.

    Args:
        names: The ids of the tools with one name, for each name.
        request: The request.
    """
    counts: Counter[str] = Counter()
    for ids in names:
        servers = {*map(_server, ids)}
        if len(servers) > 1:
            counts.update(servers)
    words = {server: {*split_identifier(server.partition(":")[2])} for server in counts}
    shared: set[str] = set[str].intersection(*words.values())
    asked = {*split_identifier(request)}
    order = sorted(counts, key=lambda it: (-len((words[it] - shared) & asked), -counts[it], it))
    return {server: at for at, server in enumerate(order)}
